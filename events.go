package redfence

import (
	"context"
	"errors"
	"time"

	"github.com/redfence/redfence/cache"
	"github.com/redfence/redfence/internal/claim"
	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

func (e *Engine) observeStart() {
	ev := observe.EngineStarted{Nodes: addresses(e.sets[0]), Quorum: e.sets[0].Quorum()}
	if len(e.sets) > 1 {
		ev.CacheNodes = addresses(e.sets[1])
	}
	e.cfg.Observer.Observe(ev)
}

func addresses(set *node.Set) []string {
	var list []string
	for _, n := range set.Nodes() {
		list = append(list, n.Addr())
	}
	return list
}

func (e *Engine) observeLost(r *run, ev claim.Event) {
	cause := "the lease could not be renewed in time"
	if ev.Kind == claim.RenewRefused {
		cause = "the ledger refused the renewal"
	}
	e.cfg.Observer.Observe(observe.ClaimLost{Key: r.call.ref(), Fence: r.snapshot().Grant.Fence, Cause: cause})
}

// Events of every call are made only for an observer that was given: each costs
// an allocation.

func (e *Engine) observeGrant(r *run, g claim.Grant) {
	if e.observed {
		e.cfg.Observer.Observe(observe.ClaimGranted{
			Key: r.call.ref(), Route: r.call.route, Fence: g.Fence, Attempt: g.Attempt, TakenOver: r.over != 0,
		})
	}
}

func (e *Engine) observeCache(c *call, result cache.Result) {
	if e.observed {
		e.cfg.Observer.Observe(observe.CacheRead{Key: c.ref(), Hit: result == cache.Hit, Reason: string(result)})
	}
}

// observeEnd tells how a claim whose handler had started has ended.
func (e *Engine) observeEnd(r *run, ev claim.Event) {
	if !e.observed {
		return
	}
	s := r.snapshot()
	result := s.Outcome.String()
	switch ev.Kind {
	case claim.Refused:
		result = "refused"
	case claim.Closing, claim.Left:
		result = "left"
	}
	e.cfg.Observer.Observe(observe.ClaimEnded{Key: r.call.ref(), Fence: s.Grant.Fence, Result: result, Held: time.Since(r.since)})
}

func (e *Engine) observeDo(c *call, res Result, err error, began time.Time) {
	if !e.observed {
		return
	}
	ev := observe.DoFinished{
		Key: c.ref(), Route: c.route, Outcome: res.Outcome.String(), Durable: res.Durable, Took: time.Since(began), Err: err,
	}
	if err != nil {
		ev.Reason = "handler"
		if res.Outcome == 0 {
			ev.Outcome, ev.Reason = "error", reasonOf(err)
		}
	}
	e.cfg.Observer.Observe(ev)
}

// words are the reasons of errors, the first match counts: a lock that was waited
// for in vain is both canceled and taken.
var words = []struct {
	err  error
	word string
}{
	{ErrInProgress, "in_progress"}, {ErrMismatch, "mismatch"}, {ErrUnknownOutcome, "unknown_outcome"},
	{ErrNotReplayable, "not_replayable"}, {ErrExpired, "expired"}, {ErrLedgerUnavailable, "ledger_unavailable"},
	{ErrOverloaded, "overloaded"}, {ErrInvalid, "invalid"}, {ErrClosed, "closed"}, {ErrInDoubt, "in_doubt"},
	{context.Canceled, "canceled"}, {context.DeadlineExceeded, "canceled"},
	{lock.ErrTaken, "taken"}, {lock.ErrNoQuorum, "no_quorum"}, {lock.ErrTooLate, "too_late"}, {lock.ErrClosed, "closed"},
}

// reasonOf is an error in a word.
func reasonOf(err error) string {
	for _, w := range words {
		if errors.Is(err, w.err) {
			return w.word
		}
	}
	return "other"
}

// observeAcquire tells how a call for a lock has ended.
func (e *Engine) observeAcquire(c *call, lease lock.Lease, err error, began time.Time) {
	if err != nil {
		e.cfg.Observer.Observe(observe.LockRefused{Lock: c.ref(), Reason: reasonOf(err), Took: time.Since(began)})
		return
	}
	e.cfg.Observer.Observe(observe.LockAcquired{Lock: c.ref(), Fence: lease.Fence(), Took: time.Since(began)})
}

// observeEnd tells how the lease has ended, once.
func (l *engineLease) observeEnd() {
	l.told.Do(func() {
		r := l.run
		ref, fence, held := r.call.ref(), l.Fence(), time.Since(r.since)
		if errors.Is(context.Cause(l.ctx), lock.ErrNotHeld) {
			r.engine.cfg.Observer.Observe(observe.LockReleased{Lock: ref, Fence: fence, Held: held})
			return
		}
		r.engine.cfg.Observer.Observe(observe.LockLost{Lock: ref, Fence: fence, Held: held})
	})
}
