package redfence

import (
	"context"
	"errors"
	"fmt"

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
	if r.Response != nil {
		p := payload.Response{Status: r.Response.Status, Header: r.Response.Header, Body: r.Response.Body}
		if dec.Response, err = e.codec.Encode(nil, &p, row.Digest[:]); err != nil {
			return &Error{Kind: ErrInvalid, Err: err}
		}
		dec.State, dec.Status = fallback.Completed, r.Response.Status
	}
	_, err = e.ledger.Decide(ctx, dec)
	switch {
	case errors.Is(err, fallback.ErrRefused):
		return &Error{Kind: ErrInvalid, Err: err, Hint: "the row has changed, or it is too early to release it: look at it again, or force it"}
	case err != nil:
		return ledgerError(ctx, err)
	}
	return nil
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
