package redfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/claim"
	"github.com/redfence/redfence/internal/failpoint"
)

// A TxHandler does the work of one key in a transaction of the ledger's
// database. It may run several times; its committed effects happen once. It
// must not commit or roll back.
type TxHandler func(ctx context.Context, tx pgx.Tx, ex *Execution) (Response, error)

// DoTx is Do for effects that are writes to the ledger's own Postgres: they
// and the completion commit in one transaction, so they happen exactly once,
// given durable Postgres (R15). The claim's lease is Policy.MaxProcessing and
// is not renewed; what a dead owner leaves behind runs again after it, whatever
// Policy.OnAbandoned says, since nothing of it was committed.
//
// Serialization failures and deadlocks run the whole function again. A plain
// error or a panic rolls back and releases the key; Store(err) rolls back and
// records the error. When the COMMIT's reply is lost and the row cannot be
// read, the error matches ErrUnknownOutcome, and a later call finds out. The
// ledger must be a fallback.TxLedger, which Postgres is.
func (e *Engine) DoTx(ctx context.Context, req Request, fn TxHandler) (Result, error) {
	ledger, ok := e.ledger.(fallback.TxLedger)
	if !ok || fn == nil {
		return Result{}, describe(&Error{Kind: ErrInvalid, Err: errors.New("DoTx needs a handler and a ledger in Postgres")}, "do", req.Key(), "")
	}
	policy := e.cfg.Policy
	if req.Policy != nil {
		policy = req.Policy.withDefaults()
	}
	policy.Lease, policy.OnAbandoned = policy.MaxProcessing, Retry
	policy.OnError, policy.OnPanic = ErrorReleases, ErrorReleases
	policy.FailOpen = false
	req.Policy = &policy
	return e.do(ctx, req, &txWork{ledger: ledger, options: policy.Tx, fn: fn})
}

// txWork is a handler with a transaction around it.
type txWork struct {
	ledger  fallback.TxLedger
	options pgx.TxOptions
	fn      TxHandler
}

// errInDoubt says that a COMMIT was sent and nobody knows what became of it.
var errInDoubt = errors.New("the COMMIT's reply was lost")

// A txError is a failure of the transaction and not of the function.
type txError struct{ err error }

func (e *txError) Error() string { return e.err.Error() }
func (e *txError) Unwrap() error { return e.err }

// perform runs the function in transactions until one commits or fails for
// good. Once a COMMIT was in doubt, nothing but the row can say that nothing
// has happened.
func (w *txWork) perform(ctx context.Context, r *run) (resp Response, err error) {
	inDoubt := false
	for try := 0; ; try++ {
		resp, err = w.once(ctx, r)
		if errors.Is(err, errInDoubt) || errors.Is(err, fallback.ErrRefused) {
			inDoubt = inDoubt || errors.Is(err, errInDoubt)
			again := false
			if resp, err, again = w.readBack(ctx, r, err); !again {
				return resp, err
			}
		} else if err == nil || !fallback.Retryable(err) {
			break
		}
		if paused := pause(ctx, try); paused != nil {
			err = errors.Join(err, paused)
			break
		}
	}
	if err != nil && inDoubt {
		err = fmt.Errorf("%w; then: %w", errInDoubt, err)
	}
	return resp, err
}

// once runs the function in one transaction.
func (w *txWork) once(ctx context.Context, r *run) (resp Response, err error) {
	tx, err := w.ledger.BeginTx(ctx, w.options, r.req.Policy.MaxProcessing)
	if err != nil {
		return resp, &txError{err}
	}
	ended := false
	defer func() {
		if !ended { // also when the function panics
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), r.engine.cfg.LedgerTimeout)
			defer stop()
			_ = tx.Rollback(ctx)
		}
	}()
	if resp, err = w.fn(ctx, tx, r.ex); err != nil {
		return resp, err
	}
	if r.outcome(&resp, nil) != claim.Complete {
		return resp, fmt.Errorf("rolled back: %s", r.reason)
	}
	c := fallback.Completion{Ref: r.ref(r.snapshot()), Status: r.status, Response: r.record}
	if err := w.ledger.CompleteTx(ctx, tx, c); err != nil {
		return resp, err
	}
	ended = true
	r.call.flight.settles() // once it has committed, others may answer it
	return resp, w.commit(ctx, r, tx)
}

// commit waits for the COMMIT whatever the caller does: nothing is answered
// before it is confirmed.
func (w *txWork) commit(ctx context.Context, r *run, tx pgx.Tx) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), r.engine.cfg.LedgerTimeout)
	defer stop()
	err := tx.Commit(ctx)
	switch {
	case err == nil, failpoint.Mutant("dotx-unconfirmed-response"):
		r.committed = true
		r.row = fallback.Record{Response: r.record}
		return nil
	case fallback.RolledBack(err):
		return err
	}
	return fmt.Errorf("%w: %w", errInDoubt, err)
}

// readBack asks the row what became of a COMMIT in doubt, or why the
// completion changed no row. again: it has not been completed, so the function
// may run again; if the old COMMIT lands all the same, the new one finds no row
// to complete and rolls back.
func (w *txWork) readBack(ctx context.Context, r *run, cause error) (_ Response, err error, again bool) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), r.engine.cfg.LedgerTimeout)
	defer stop()
	row, err := w.ledger.Confirm(ctx, r.req.Digest)
	for errors.Is(err, fallback.ErrBusy) && sleep(ctx, firstResend) == nil { // the COMMIT in doubt still holds the row
		row, err = w.ledger.Confirm(ctx, r.req.Digest)
	}
	ref := r.ref(r.snapshot())
	switch {
	case err != nil:
		return Response{}, fmt.Errorf("%w; %w", errInDoubt, err), false
	case row.Token != ref.Token || row.Fence != ref.Fence:
		return Response{}, ErrClaimLost, false
	case row.State == fallback.Completed:
		r.committed, r.row, r.record = true, row, row.Response
		v := r.engine.replay(r.call, &row)
		return v.res.Response, v.err, false
	case row.State == fallback.Processing:
		return Response{}, nil, true
	}
	return Response{}, fmt.Errorf("the row is %v: %w", row.State, cause), false
}
