package redfence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/payload"
)

// A Record is what the ledger knows of one key.
type Record struct {
	fallback.Record
	// Stored is the response, if there is one.
	Stored Response
	// StoredErr is the handler's error when that was recorded (*StoredError),
	// or why the response cannot be decoded.
	StoredErr error
}

// Inspect reads the row of a key. A key that nobody has claimed has the state
// Absent. It matches ErrLedgerUnavailable when the ledger cannot be asked.
func (e *Engine) Inspect(ctx context.Context, key Key) (Record, error) {
	row, err := e.ledger.Read(ctx, key.in(doNamespace).Digest())
	if err != nil {
		return Record{}, describe(ledgerError(ctx, err), "inspect", key, "")
	}
	row.Response = slices.Clone(row.Response)
	rec := Record{Record: row}
	if row.State == fallback.Completed {
		rec.Stored, rec.StoredErr = decodeResponse(e.codec, &row)
	}
	return rec, nil
}

// A Resolution is an operator's word on a key whose outcome is unknown.
// Exactly one of Response and Release is set.
type Resolution struct {
	// Fence of the unknown row that was looked at; 0: whatever it has now.
	Fence int64
	// Response completes the key: the effect happened.
	Response *Response
	// Release gives the key back: the effect did not happen, and the next
	// request runs the handler.
	Release bool
	// Force releases even though the old owner's time is not over.
	Force bool
	// Who and Why are recorded. Required.
	Who, Why string
}

func (r Resolution) validate() error {
	switch {
	case (r.Response != nil) == r.Release:
		return errors.New("give either a response or Release")
	case r.Who == "" || r.Why == "":
		return errors.New("say who decides and why")
	}
	return nil
}

// Resolve decides a key whose outcome is unknown. It draws a new fence, so
// that the old owner, if it still lives, is refused. A key that is still being
// worked on matches ErrInProgress; one that is not unknown any more ErrInvalid.
func (e *Engine) Resolve(ctx context.Context, key Key, r Resolution) error {
	return describe(e.resolve(ctx, key, r), "resolve", key, "")
}

func (e *Engine) resolve(ctx context.Context, key Key, r Resolution) error {
	if err := r.validate(); err != nil {
		return &Error{Kind: ErrInvalid, Err: err}
	}
	row, err := e.unknownRow(ctx, key.in(doNamespace).Digest())
	if err != nil {
		return err
	}
	if r.Fence != 0 && r.Fence != row.Fence {
		return &Error{Kind: ErrInvalid, Err: fmt.Errorf("the row has fence %d, not %d: look at it again", row.Fence, r.Fence)}
	}
	dec := fallback.Decision{Digest: row.Digest, Fence: row.Fence, State: fallback.Released, Force: r.Force, Who: r.Who, Why: r.Why}
	err = e.decideUnknown(ctx, dec, r.Response)
	switch {
	case errors.Is(err, fallback.ErrRefused):
		return &Error{Kind: ErrInvalid, Err: err, Hint: "the row has changed, or it is too early to release it: look at it again, or force it"}
	case err != nil && !errors.Is(err, ErrInvalid):
		return ledgerError(ctx, err)
	}
	return err
}

// decideUnknown records the decision on an unknown row; a response completes
// it, none releases it.
func (e *Engine) decideUnknown(ctx context.Context, dec fallback.Decision, resp *Response) (err error) {
	if resp != nil {
		p := payload.Response{Status: resp.Status, Header: resp.Header, Body: resp.Body}
		if dec.Response, err = e.codec.Encode(nil, &p, dec.Digest[:]); err != nil {
			return &Error{Kind: ErrInvalid, Err: err}
		}
		dec.State, dec.Status = fallback.Completed, resp.Status
	}
	if _, err = e.ledger.Decide(ctx, dec); err == nil {
		e.wake(dec.Digest)
	}
	return err
}

// unknownRow reads the row and marks it as unknown if its claim has lapsed.
func (e *Engine) unknownRow(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	row, err := e.ledger.Read(ctx, d)
	if err == nil && judge(&row) == lapse {
		row, err = e.ledger.Lapse(ctx, d, row.Fence)
	}
	switch {
	case err != nil:
		return row, ledgerError(ctx, err)
	case judge(&row) == waitFor:
		return row, ErrInProgress
	case row.State != fallback.Unknown:
		return row, &Error{Kind: ErrInvalid, Err: fmt.Errorf("the key is %v, not unknown", row.State)}
	}
	return row, nil
}

// An Operator is who erases a key and why; both are recorded.
type Operator struct{ Who, Why string }

// Forget erases the response of a completed key everywhere: in the ledger, on
// every node of the cache and, within 30 s, in every process. Duplicates get
// ErrNotReplayable until the retention is over; the handler does not run
// again. A key that is not completed matches ErrInvalid. When a node of the
// cache has not answered, the error lists it and matches ErrNotErased: the
// ledger has forgotten, and Forget may be called again.
func (e *Engine) Forget(ctx context.Context, key Key, by ...Operator) error {
	return describe(e.forget(ctx, key, by), "forget", key, "")
}

func (e *Engine) forget(ctx context.Context, key Key, by []Operator) error {
	op := Operator{Who: e.cfg.Owner, Why: "Engine.Forget"}
	if len(by) > 0 {
		op = by[0]
	}
	d := key.in(doNamespace).Digest()
	row, err := e.ledger.Forget(ctx, d, op.Who, op.Why)
	switch {
	case errors.Is(err, fallback.ErrRefused):
		return &Error{Kind: ErrInvalid, Err: err, Hint: "only completed keys can be forgotten"}
	case err != nil:
		return ledgerError(ctx, err)
	}
	if err := e.erase(ctx, &row); err != nil {
		return &Error{Kind: ErrNotErased, Err: err, Hint: "the ledger has forgotten it; call again when the nodes answer"}
	}
	return nil
}
