package redfence

import (
	"context"
	"errors"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/claim"
)

// An Execution is the handler's view of its claim. It is safe for concurrent
// use and valid until the handler has returned.
type Execution struct {
	key     Key
	fence   int64
	attempt int
	lost    chan struct{}
	run     *run // nil for an unprotected run
}

// Fence is larger for every later claim of the key. Send it along with the
// effect, so that the receiver can refuse an older one. 0 for an unprotected
// run (Policy.FailOpen).
func (x *Execution) Fence() int64 { return x.fence }

// Key returns the key that is worked on.
func (x *Execution) Key() Key { return x.key }

// Attempt counts the claims of this key that were granted one after the other
// without an outcome, from 1.
func (x *Execution) Attempt() int { return x.attempt }

// Lost is closed when the lease could not be renewed in time. Under Retry the
// context has ended as well; under Hold it is a warning.
func (x *Execution) Lost() <-chan struct{} { return x.lost }

// Unreplayable tells the ledger, before its first byte leaves, that the
// response cannot be recorded (R3): duplicates get ErrNotReplayable with the
// status and reason, and the handler never runs again for the key, however
// this run ends. After nil the response may leave. After an error nothing may:
// the claim is lost (ErrClaimLost), or the ledger could not be asked and
// another claim may follow (Retry). It waits for the ledger, at most
// Config.LedgerTimeout, whatever ctx does.
func (x *Execution) Unreplayable(ctx context.Context, status int, reason string) error {
	if x.run == nil {
		return nil
	}
	return x.run.stream(ctx, status, capText(reason))
}

// stream moves the row to streaming.
func (r *run) stream(ctx context.Context, status int, reason string) error {
	s := r.snapshot()
	switch {
	case s.Streams:
		return nil
	case s.Phase != claim.Running, s.Retry && s.Lost:
		return ErrClaimLost
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), r.engine.cfg.LedgerTimeout)
	defer stop()
	g, err := r.engine.ledger.Stream(ctx, r.ref(s))
	switch {
	case err == nil:
		r.step(claim.Event{Kind: claim.Streamed, Grant: stepGrant(&g)})
	case errors.Is(err, fallback.ErrRefused):
		return errors.Join(ErrClaimLost, err)
	default:
		r.step(claim.Event{Kind: claim.NotStreamed})
		if s.Retry {
			return &Error{Kind: ErrLedgerUnavailable, Err: err}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.reason = status, reason
	return nil
}
