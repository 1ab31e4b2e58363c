package redfence

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/claim"
	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/lock"
)

// A run is one claim on its way: it carries the actions of package
// internal/claim out and brings the answers back as events.
type run struct {
	engine *Engine
	call   *call
	req    fallback.ClaimRequest
	over   int64 // the fence of the lapsed claim to take over; 0: none
	lease  lock.Lease
	ex     *Execution
	since  time.Time // when the handler was started
	renews bool      // the ledger lease; a transaction's is as long as it may be

	mu     sync.Mutex
	state  claim.State
	cancel context.CancelCauseFunc // of the handler
	watch  watchdog

	notAfter time.Time // of a claim whose verdict was lost, on the ledger's clock
	lostAt   time.Time // when it was lost
	cause    error     // of the last call that failed
	record   []byte    // the encoded response, for Complete
	status   int
	size     int             // of a response that is too large
	reason   string          // for all but Complete
	row      fallback.Record // as the completion left it
	// committed: the response was recorded by the handler's own transaction.
	committed bool
}

// newRun prepares a claim: a new one, or one that takes the lapsed claim of a
// row over. The row was compared with the request under the row's own
// algorithm and secret, and it keeps that fingerprint.
func (e *Engine) newRun(c *call, lease lock.Lease, over *fallback.Record) *run {
	r := e.freshRun(c, lease)
	if over != nil {
		r.over, r.req.Fingerprint = over.Fence, over.Fingerprint
	}
	return r
}

func (e *Engine) freshRun(c *call, lease lock.Lease) *run {
	_, tx := c.work.(*txWork)
	return &run{
		engine: e, call: c, lease: lease, renews: !tx,
		req: fallback.ClaimRequest{
			Key: c.key, Digest: c.digest, Token: fallback.NewToken(), Owner: e.cfg.Owner,
			Fingerprint: e.fingerprint(c.req.Fingerprint), Policy: c.policy.stored(),
		},
		state: claim.State{Terms: claim.Terms{
			Retry: c.policy.OnAbandoned == Retry, CancelOnLost: c.policy.CancelOnLost, Margin: c.policy.Lease / 10,
		}},
	}
}

// step takes the claim one event further and carries out what does not have to
// be waited for.
func (r *run) step(ev claim.Event) claim.Action {
	act, ended := r.stepLocked(ev)
	if act.Has(claim.WarnLost) {
		r.engine.observeLost(r, ev)
	}
	if ended {
		r.engine.observeEnd(r, ev)
	}
	return act
}

// stepLocked is step under the mutex; ended says that a claim whose handler had
// started is over now.
func (r *run) stepLocked(ev claim.Event) (_ claim.Action, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended = r.state.Started && r.state.Phase != claim.Over
	next, act := claim.Step(r.state, ev)
	r.state = next
	switch {
	case act.Has(claim.Watch):
		r.watch.start(r)
	case act.Has(claim.Unwatch):
		r.watch.stop()
	}
	if next.Phase == claim.Over {
		r.watch.end()
	}
	if act.Has(claim.WarnLost) {
		close(r.ex.lost)
	}
	if act.Has(claim.CancelLost) {
		r.cancel(ErrClaimLost)
		r.engine.unlock(r.lease)
	}
	if act.Has(claim.CancelMax) {
		r.cancel(ErrMaxProcessing)
	}
	return act, ended && next.Phase == claim.Over
}

// drive goes on until there is nothing left to call, or the rest is for the
// background.
func (r *run) drive(ctx context.Context, ev claim.Event) claim.Action {
	for {
		act := r.step(ev)
		switch {
		case act.Has(claim.HandOver): // by the caller, once it has read what it needs
			return act
		case act.Has(claim.SendClaim):
			ev = r.sendClaim(ctx)
		case act.Has(claim.Reread):
			ev = r.reread(ctx)
		case act.Has(claim.SendOutcome):
			ev = r.settle(context.WithoutCancel(ctx)) // R3: the caller may be gone
		default:
			return act
		}
	}
}

// sendClaim sends the one statement that decides (R1).
func (r *run) sendClaim(ctx context.Context) claim.Event {
	if err := failpoint.Hit(ctx, "before-claim"); err != nil {
		return r.failed(claim.Rejected, err)
	}
	v, err := r.claim(ctx)
	if hit := failpoint.Hit(ctx, "after-claim"); hit != nil { // the verdict is lost, whatever it was
		err = &fallback.UnconfirmedError{NotAfter: time.Now().Add(r.engine.cfg.LedgerTimeout), Err: hit}
	}
	var lost *fallback.UnconfirmedError
	switch {
	case errors.As(err, &lost):
		r.notAfter, r.lostAt = lost.NotAfter, time.Now()
		return r.failed(claim.Unconfirmed, err)
	case errors.Is(err, fallback.ErrRefused):
		return claim.Event{Kind: claim.Denied}
	case err != nil:
		return r.failed(claim.Rejected, err)
	case v.Granted == nil:
		r.row = *v.Row
		return claim.Event{Kind: claim.Denied}
	}
	return claim.Event{Kind: claim.Granted, Grant: stepGrant(v.Granted)}
}

func (r *run) claim(ctx context.Context) (fallback.Verdict, error) {
	if failpoint.Mutant("no-ledger-claim") && r.lease != nil {
		now := time.Now()
		return fallback.Verdict{Granted: &fallback.Grant{Attempt: 1, Deadline: now.Add(r.req.Policy.Lease), Cap: now.Add(r.req.Policy.MaxProcessing)}}, nil
	}
	if r.over != 0 {
		return r.engine.ledger.TakeOver(ctx, r.req, r.over)
	}
	return r.engine.ledger.Claim(ctx, r.req)
}

func (r *run) failed(kind claim.Kind, err error) claim.Event {
	r.cause = err
	return claim.Event{Kind: kind}
}

func stepGrant(g *fallback.Grant) claim.Grant {
	return claim.Grant{Fence: g.Fence, Attempt: g.Attempt, Deadline: g.Deadline, Cap: g.Cap}
}

// reread looks for the token of a claim whose reply was lost. The caller goes
// away when its context ends or the ledger is silent for too long; the
// background does not.
func (r *run) reread(ctx context.Context) claim.Event {
	readCtx, stop := r.rereadContext(ctx)
	defer stop()
	row, err := r.engine.ledger.Confirm(readCtx, r.req.Digest)
	switch {
	case err != nil:
		if readCtx.Err() != nil {
			return claim.Event{Kind: claim.GiveUp} // the cause stays that of the claim: it is in doubt
		}
	case row.Token == r.req.Token && (row.State == fallback.Processing || row.State == fallback.Unknown):
		g := claim.Grant{Fence: row.Fence, Attempt: row.Attempts}
		if row.Grant != nil {
			g = stepGrant(row.Grant)
		}
		return claim.Event{Kind: claim.Granted, Grant: g}
	case row.Now.After(r.notAfter):
		return claim.Event{Kind: claim.NotOurs}
	}
	if sleep(readCtx, rereadEvery/2+rand.N(rereadEvery)) != nil {
		return claim.Event{Kind: claim.GiveUp}
	}
	return claim.Event{Kind: claim.Unclear}
}

// rereadContext bounds the caller's patience from when the verdict was lost; the
// background's is bounded per statement only.
func (r *run) rereadContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.snapshot().Phase == claim.Doubtful {
		return context.WithDeadline(ctx, r.lostAt.Add(r.engine.cfg.LedgerTimeout))
	}
	return context.WithTimeout(ctx, r.engine.cfg.LedgerTimeout)
}

const rereadEvery = 50 * time.Millisecond

// settle records the outcome. It is sent again until the ledger's time-out:
// every such statement is safe to send twice (R8).
func (r *run) settle(ctx context.Context) claim.Event {
	ctx, stop := context.WithTimeout(ctx, r.engine.cfg.LedgerTimeout)
	defer stop()
	for wait := firstResend; ; wait = min(2*wait, lastResend) {
		err := r.sendOutcome(ctx)
		switch {
		case err == nil:
			r.engine.wake(r.req.Digest)
			return claim.Event{Kind: claim.Confirmed}
		case errors.Is(err, fallback.ErrRefused):
			return r.failed(claim.Refused, err)
		}
		if sleep(ctx, wait/2+rand.N(wait)) != nil {
			return r.failed(claim.Failed, err)
		}
	}
}

const (
	firstResend = 20 * time.Millisecond
	lastResend  = time.Second
)

func (r *run) sendOutcome(ctx context.Context) error {
	s := r.snapshot()
	ref, ledger := r.ref(s), r.engine.ledger
	switch s.Outcome {
	case claim.Release:
		if !s.Started {
			return ledger.GiveBack(ctx, ref, "not started")
		}
		return ledger.Release(ctx, ref, r.reason)
	case claim.Abandon:
		return ledger.Abandon(ctx, ref, r.reason)
	case claim.Bury:
		return r.bury(ctx, ref)
	case claim.Close:
		return r.closeStream(ctx, ref)
	}
	return r.complete(ctx, ref)
}

func (r *run) complete(ctx context.Context, ref fallback.Ref) error {
	if r.committed { // by the handler's own transaction
		return nil
	}
	if failpoint.Mutant("put-before-completion") {
		r.engine.put(r.call, &fallback.Record{
			State: fallback.Completed, Token: ref.Token, Fence: ref.Fence, Fingerprint: r.req.Fingerprint, Status: r.status, Response: r.record,
		})
	}
	if failpoint.Mutant("reply-before-completion") {
		r.row.Response = r.record
		go r.sendCompletion(context.WithoutCancel(ctx), ref)
		return nil
	}
	row, err := r.sendCompletion(ctx, ref)
	if err == nil {
		r.row = row
	}
	return err
}

func (r *run) sendCompletion(ctx context.Context, ref fallback.Ref) (row fallback.Record, err error) {
	if err := failpoint.Hit(ctx, "before-complete"); err != nil {
		return row, err
	}
	row, err = r.engine.ledger.Complete(ctx, fallback.Completion{Ref: ref, Status: r.status, Response: r.record})
	if hit := failpoint.Hit(ctx, "after-complete"); hit != nil {
		return row, hit
	}
	return row, err
}

// bury records that there was a response and that it cannot be given again.
func (r *run) bury(ctx context.Context, ref fallback.Ref) error {
	row, err := r.engine.ledger.Bury(ctx, fallback.Burial{Ref: ref, Status: r.status, Size: int64(r.size), Reason: r.reason})
	if err == nil {
		r.row = row
	}
	return err
}

// closeStream buries the response only if the row says that it was about to
// leave: that write was in doubt, and nothing has left (R3).
func (r *run) closeStream(ctx context.Context, ref fallback.Ref) error {
	row, err := r.engine.ledger.Read(ctx, ref.Digest)
	if err != nil || row.State != fallback.Streaming || row.Token != ref.Token {
		return err
	}
	return r.bury(ctx, ref)
}

func (r *run) snapshot() claim.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// ref names the claim.
func (r *run) ref(s claim.State) fallback.Ref {
	return fallback.Ref{Digest: r.req.Digest, Token: r.req.Token, Fence: s.Grant.Fence}
}

// joinable reports whether a duplicate may wait for this run.
func (r *run) joinable() bool {
	return r.snapshot().Joinable(time.Now())
}
