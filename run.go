package redfence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/claim"
	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/internal/payload"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

// execute claims the key and, if the claim is granted in time, runs the
// handler. over is the row whose lapsed claim to take over, if any.
func (e *Engine) execute(ctx context.Context, c *call, lease lock.Lease, over *fallback.Record) (verdict, *sight) {
	defer e.unlock(lease)
	if !e.slots.take() {
		return verdict{err: &Error{Kind: ErrOverloaded, Err: fmt.Errorf("%d keys in flight (Config.MaxInFlight)", e.cfg.MaxInFlight)}}, nil
	}
	defer e.slots.give()
	r := e.newRun(c, lease, over)
	hctx, cancel := context.WithCancelCause(withRunning(ctx, e, c.digest))
	defer cancel(nil)
	r.cancel = cancel
	r.ex = &Execution{key: c.req.Key(), lost: make(chan struct{}), run: r}
	act := r.drive(ctx, claim.Event{Kind: claim.Begin})
	if act.Has(claim.Watch) {
		act = r.drive(ctx, claim.Event{Kind: claim.Start, Now: time.Now(), CallerGone: ctx.Err() != nil})
	}
	switch {
	case act.Has(claim.StartRun):
		return r.run(ctx, hctx), nil
	case act.Has(claim.Look) && r.row.State != fallback.Absent:
		return verdict{}, &sight{next: judge(&r.row), row: r.row}
	case act.Has(claim.Look):
		return verdict{}, &sight{next: unseen}
	}
	cause := r.cause
	r.handOver(act)
	return e.notStarted(ctx, c, cause)
}

// handOver leaves what is still to do to the background.
func (r *run) handOver(act claim.Action) {
	if act.Has(claim.HandOver) {
		r.engine.cfg.Observer.Observe(observe.HandedOver{Key: r.call.ref(), Fence: r.snapshot().Grant.Fence})
		r.engine.background.finish(r, act)
	}
}

// maxTries bounds how often a call claims again after a claim that came too
// late.
const maxTries = 3

// notStarted is the verdict of a claim that started nothing.
func (e *Engine) notStarted(ctx context.Context, c *call, cause error) (verdict, *sight) {
	switch {
	case ctx.Err() != nil:
		return verdict{err: &Error{Kind: ctx.Err(), Err: cause, Hint: "nothing was started"}}, nil
	case cause == nil && c.tries < maxTries: // it was released, so it can be claimed again
		c.tries++
		return verdict{}, &sight{next: unseen}
	case cause == nil:
		cause = errors.New("claims come too late to start the handler under them: the ledger is slow, or Policy.Lease is short")
	}
	return e.failOpen(ctx, c, cause)
}

// run calls the handler and records its outcome. A panic is recorded as well
// and passed on as it is.
func (r *run) run(ctx, hctx context.Context) verdict {
	r.started()
	returned := false
	defer func() {
		if !returned { // a panic, or runtime.Goexit
			r.call.flight.settles()
			r.reason = "the handler panicked"
			r.handOver(r.drive(ctx, claim.Event{Kind: claim.Returned, Outcome: unrecorded(r.call.policy.OnPanic)}))
		}
	}()
	resp, err := r.callHandler(hctx)
	r.call.flight.settles()
	if errors.Is(err, errInDoubt) {
		returned = true
		r.drive(ctx, claim.Event{Kind: claim.Left})
		return verdict{err: &Error{Kind: ErrUnknownOutcome, Err: err, Hint: "a later call reads what became of it"}}
	}
	outcome := r.outcome(&resp, err) // calls the error's methods, which may panic as well
	returned = true
	act := r.drive(ctx, claim.Event{Kind: claim.Returned, Outcome: outcome})
	v := r.verdict(act, resp, err)
	r.handOver(act)
	return v
}

func (r *run) callHandler(ctx context.Context) (Response, error) {
	if err := failpoint.Hit(ctx, "before-effect"); err != nil {
		return Response{}, err
	}
	resp, err := r.call.work.perform(ctx, r)
	if hit := failpoint.Hit(ctx, "after-effect"); hit != nil {
		return resp, hit
	}
	return resp, err
}

func (r *run) started() {
	r.since = time.Now()
	g := r.snapshot().Grant
	r.ex.fence, r.ex.attempt = g.Fence, g.Attempt
	r.call.flight.runs(r.joinable)
	r.engine.observeGrant(r, g)
}

// unrecorded is the outcome of a handler that left no response.
func unrecorded(means OnError) claim.Outcome {
	if means == ErrorReleases {
		return claim.Release
	}
	return claim.Abandon
}

// outcome says what the ledger is to record of what the handler returned.
func (r *run) outcome(resp *Response, err error) claim.Outcome {
	switch s := r.snapshot(); {
	case s.Streams || s.Forgone: // said before the response left
		return claim.Bury
	case r.committed:
		return claim.Complete
	}
	p := payload.Response{Status: resp.Status, Header: resp.Header, Body: resp.Body}
	if err != nil {
		var means OnError
		if err, means = meaning(err, r.call.policy.OnError); means != ErrorStores {
			r.reason = capText("the handler failed: " + err.Error())
			return unrecorded(means)
		}
		p = payload.Response{IsErr: true, Err: err.Error()}
	}
	record, err := r.engine.codec.Encode(nil, &p, r.req.Digest[:])
	switch {
	case err != nil:
		r.reason = capText("the response cannot be encoded: " + err.Error())
		return claim.Abandon
	case len(record) > r.engine.cfg.MaxResponse:
		r.status, r.size = resp.Status, len(record)
		r.reason = fmt.Sprintf("the response has %d bytes encoded, more than MaxResponse %d", len(record), r.engine.cfg.MaxResponse)
		return claim.Bury
	}
	r.record, r.status = record, resp.Status
	return claim.Complete
}

// capText bounds what a handler's error leaves in the ledger.
func capText(s string) string {
	const most = 500
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// verdict is what this call returns and what its followers share.
func (r *run) verdict(act claim.Action, resp Response, err error) verdict {
	v := verdict{shared: true, err: err, res: Result{
		Outcome: Executed, Response: resp, Fence: r.ex.fence, Durable: act.Has(claim.Durable),
	}}
	outcome := r.snapshot().Outcome
	switch {
	case act.Has(claim.Durable):
		r.engine.put(r.call, &r.row)
		if !bytes.Equal(r.row.Response, r.record) { // R8: the row's response is the one to give
			recorded := r.engine.replay(r.call, &r.row)
			v.res.Response, v.err = recorded.res.Response, recorded.err
		}
	case act.Has(claim.NotDurable):
		r.engine.cfg.Observer.Observe(observe.NotDurable{Key: r.call.ref(), Fence: r.ex.fence, Cause: r.cause.Error()})
	case outcome == claim.Abandon:
		r.engine.cfg.Observer.Observe(observe.OutcomeUnknown{Key: r.call.ref(), Fence: r.ex.fence, Reason: r.reason})
		v.toFollowers = &Error{Kind: ErrUnknownOutcome, Err: errors.New(r.reason)}
	case outcome == claim.Bury:
		v.toFollowers = notReplayable(r.status, r.reason)
		if r.row.State == fallback.Tombstone {
			r.engine.put(r.call, &r.row)
		}
	default: // released: one of the followers becomes the claimer
		v.shared = false
		if errors.As(err, new(*txError)) { // the function did not even run
			v.res, v.err = Result{}, ledgerError(context.Background(), err)
		}
	}
	if stored := outcome == claim.Complete && err != nil; stored {
		v.toFollowers = &StoredError{Text: err.Error()}
	}
	return v
}

// failOpen runs the handler unprotected when the policy asks for it and the
// ledger is gone: never while a claim of ours may be in force, never when the
// row can be read or the cache has a copy of it (R10).
func (e *Engine) failOpen(ctx context.Context, c *call, cause error) (verdict, *sight) {
	v := verdict{err: ledgerError(ctx, cause)}
	if found, ok := e.recalled(ctx, c, v.err); ok {
		return found, nil
	}
	if !c.policy.FailOpen || !errors.Is(cause, fallback.ErrUnavailable) || errors.Is(cause, fallback.ErrUnconfirmed) {
		return v, nil
	}
	switch s := e.lookAtRow(ctx, c); {
	case s.next == claimIt: // it can be read, so it is not gone
		return v, nil
	case s.next != failed:
		return verdict{}, &s
	case !errors.Is(s.err, ErrLedgerUnavailable) || ctx.Err() != nil:
		return verdict{err: s.err}, nil
	}
	ex := &Execution{key: c.req.Key(), attempt: 1, lost: make(chan struct{})}
	hctx, cancel := context.WithTimeoutCause(withRunning(ctx, e, c.digest), c.policy.MaxProcessing, ErrMaxProcessing)
	defer cancel()
	resp, err := c.work.perform(hctx, &run{engine: e, call: c, ex: ex})
	return verdict{err: err, res: Result{Outcome: Unrecorded, Response: resp}}, nil
}

// runningKey marks the context of a handler with the keys that it works on.
type runningKey struct{}

type running struct {
	engine *Engine
	digest [32]byte
	outer  *running
}

func withRunning(ctx context.Context, e *Engine, digest [32]byte) context.Context {
	outer, _ := ctx.Value(runningKey{}).(*running)
	return context.WithValue(ctx, runningKey{}, &running{engine: e, digest: digest, outer: outer})
}

// runsIn reports whether the context belongs to a handler of the key: waiting
// for it would be waiting for itself.
func runsIn(ctx context.Context, e *Engine, digest [32]byte) bool {
	r, _ := ctx.Value(runningKey{}).(*running)
	for ; r != nil; r = r.outer {
		if r.engine == e && r.digest == digest {
			return true
		}
	}
	return false
}
