package redfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

// An UnknownKey is what a recovery hook is told of a key.
type UnknownKey struct {
	Key       Key
	Fence     int64     // of the claim whose outcome is unknown
	Attempts  int       // claims so far
	Owner     string    // the process that held it
	ClaimedAt time.Time // on the ledger's clock
	Reason    string
}

// A Recovery is what a recovery hook has found out. Its zero value decides
// nothing: the key stays unknown, and a later duplicate asks again.
type Recovery struct {
	// Response: the effect happened, and this is its response.
	Response *Response
	// Release: the effect did not happen; the handler may run.
	Release bool
}

// Recover finds out what became of a key whose owner is gone: it asks the
// payment provider, looks for the order. It is called at least once, by one
// caller at a time, and has 30 s to answer. Its decision holds only if
// nobody has decided otherwise meanwhile; the old owner's own completion, if it
// comes first, wins.
type Recover func(ctx context.Context, u UnknownKey) (Recovery, error)

// recoveryTerm is how long one call of a hook has the key to itself.
const recoveryTerm = 30 * time.Second

// recover asks the hook about an unknown row, if it is time.
func (e *Engine) recover(ctx context.Context, c *call, row *fallback.Record) (verdict, *sight) {
	undecided := verdict{shared: c.policy.Recover == nil, err: unknownError(row)}
	if c.policy.Recover == nil {
		return undecided, nil
	}
	ends := time.Now().Add(recoveryTerm - recoveryTerm/100 - 2*time.Millisecond) // less drift, as for leases (R5)
	now, err := e.ledger.BeginRecovery(ctx, c.digest, row.Fence, recoveryTerm)
	switch {
	case errors.Is(err, fallback.ErrRefused): // too early, or another caller asks, or somebody has decided
		if row, err := e.ledger.Read(ctx, c.digest); err == nil && judge(&row) != unknown {
			return verdict{}, &sight{next: judge(&row), row: row}
		}
		return undecided, nil
	case err != nil:
		return verdict{err: ledgerError(ctx, err)}, nil
	}
	found, err := e.ask(ctx, c, &now, ends)
	if err != nil || found == (Recovery{}) {
		if err != nil {
			undecided.err = &Error{Kind: ErrUnknownOutcome, Err: fmt.Errorf("the recovery hook failed: %w", err)}
		}
		return undecided, nil
	}
	dec := fallback.Decision{Digest: c.digest, Fence: row.Fence, State: fallback.Released, Who: "recovery hook of " + e.cfg.Owner, Why: "Policy.Recover"}
	decideCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.LedgerTimeout)
	defer stop()
	if err := e.decideUnknown(decideCtx, dec, found.Response); err != nil && !errors.Is(err, fallback.ErrRefused) {
		return verdict{err: ledgerError(ctx, err)}, nil
	}
	return verdict{}, &sight{next: unseen}
}

// ask calls the hook. It goes on when the caller is gone: its answer is worth
// recording.
func (e *Engine) ask(ctx context.Context, c *call, row *fallback.Record, ends time.Time) (Recovery, error) {
	ctx, stop := context.WithDeadline(context.WithoutCancel(ctx), ends)
	defer stop()
	found, err := c.policy.Recover(ctx, UnknownKey{
		Key: c.req.Key(), Fence: row.Fence, Attempts: row.Attempts, Owner: row.Owner, ClaimedAt: row.ClaimedAt, Reason: row.Reason,
	})
	if err == nil && found.Response != nil && found.Release {
		err = errors.New("it gave a response and Release")
	}
	e.cfg.Observer.Observe(observe.RecoveryAsked{Key: c.ref(), Fence: row.Fence, Decided: err == nil && found != (Recovery{}), Err: err})
	return found, err
}
