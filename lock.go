package redfence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/claim"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/lock"
)

var _ lock.Locker = (*Engine)(nil)

const defaultLockTTL = 10 * time.Second

// Acquire waits until it holds the named lock, or ctx ends. The lock is a
// claim of the ledger (R18): it goes on through a Redis outage, its fences are
// from one sequence for every name, and a holder that dies is followed when
// its TTL (lock.WithTTL, 10 s by default) has lapsed; it and lock.WithMaxHold are
// at least 100 ms. Waiters
// of one process queue up. Errors match lock.ErrNotAcquired and its kinds;
// lock.ErrNoQuorum means that the ledger could not be asked.
func (e *Engine) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Lease, error) {
	c, err := e.lockCall(name, opts)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	lease, err := e.waitForLock(ctx, c)
	e.observeAcquire(c, lease, err, began)
	return lease, err
}

func (e *Engine) waitForLock(ctx context.Context, c *call) (lock.Lease, error) {
	leave, err := e.queues.join(ctx, c.digest)
	if err != nil {
		return nil, &lock.Error{Op: "acquire", Name: c.req.ID, Reason: lock.ErrTaken, Ctx: err}
	}
	defer leave()
	w := e.watch(c)
	defer w.stop()
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		lease, err := e.tryLock(ctx, c)
		var failed *lock.Error
		if err == nil || !errors.As(err, &failed) || failed.Reason == lock.ErrClosed {
			return lease, err
		}
		if failed.Remaining > 0 {
			wait = min(wait, failed.Remaining+time.Millisecond)
		}
		if ctx.Err() != nil || !w.wait(ctx, wait) {
			failed.Ctx = ctx.Err()
			return nil, failed
		}
	}
}

// TryAcquire makes one try at the named lock; see Acquire.
func (e *Engine) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Lease, error) {
	c, err := e.lockCall(name, opts)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	lease, err := e.tryLock(ctx, c)
	e.observeAcquire(c, lease, err, began)
	return lease, err
}

// lockCall is the call that a lock is: always Retry, never recorded. Its looks do
// not wait; waitForLock does.
func (e *Engine) lockCall(name string, opts []lock.Option) (*call, error) {
	o := lock.Resolve(lock.Options{TTL: defaultLockTTL}, opts...)
	var list problems.List
	if name == "" {
		list.Add("the name is empty")
	}
	if o.TTL < minLease {
		list.Add("TTL %v is below %v", o.TTL, minLease)
	}
	if o.MaxHold != 0 && o.MaxHold < minLease {
		list.Add("MaxHold %v is below %v; 0 is none", o.MaxHold, minLease)
	}
	if err := list.Err(); err != nil {
		return nil, &lock.Error{Op: "acquire", Name: name, Reason: err}
	}
	if o.MaxHold == 0 {
		o.MaxHold = noMaxHold
	}
	key := Key{ID: name}.in(lockNamespace)
	return &call{engine: e, req: Request{ID: name}, key: key, digest: key.Digest(), policy: Policy{
		OnAbandoned: Retry, Lease: min(o.TTL, o.MaxHold), MaxProcessing: o.MaxHold, MaxAttempts: math.MaxInt32, Retention: Forever, Wait: NoWait,
	}}, nil
}

// noMaxHold is a bound that no holder reaches.
const noMaxHold = 100 * 365 * 24 * time.Hour

// tryLock looks and claims once.
func (e *Engine) tryLock(ctx context.Context, c *call) (lock.Lease, error) {
	if !e.work.enter() {
		return nil, &lock.Error{Op: "acquire", Name: c.req.ID, Reason: lock.ErrClosed}
	}
	defer e.work.leave()
	if err := ctx.Err(); err != nil {
		return nil, &lock.Error{Op: "acquire", Name: c.req.ID, Ctx: err}
	}
	s := e.look(ctx, c)
	for range 2 { // a look that claims and loses has seen why
		switch s.next {
		case claimIt:
			lease, seen := e.claimLock(ctx, c, s.holds, nil)
			if lease != nil {
				return lease, nil
			}
			s = seen
		case takeOver:
			lease, seen := e.claimLock(ctx, c, nil, &s.row)
			if lease != nil {
				return lease, nil
			}
			s = seen
		}
	}
	return nil, e.notLocked(ctx, c, s)
}

// notLocked says why: taken, or the ledger could not be asked.
func (e *Engine) notLocked(ctx context.Context, c *call, s sight) error {
	err := &lock.Error{Op: "acquire", Name: c.req.ID, Reason: lock.ErrTaken, Ctx: ctx.Err()}
	switch s.next {
	case failed:
		err.Reason = lock.ErrNoQuorum
		if s.err == lock.ErrTooLate {
			err.Reason = s.err
		}
		err.Nodes = []lock.NodeError{{Node: "ledger", Err: s.err}}
	case waitFor:
		err.Holder, err.Remaining = s.row.Owner, s.row.LeaseUntil.Sub(s.row.Now)
	}
	return err
}

// claimLock claims the lock's row, now or by taking over a lapsed claim.
func (e *Engine) claimLock(ctx context.Context, c *call, processing lock.Lease, over *fallback.Record) (lock.Lease, sight) {
	r := e.newRun(c, processing, over)
	l := &engineLease{run: r}
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.cancel = func(cause error) { l.cancel(fmt.Errorf("%w: %w", lock.ErrLost, cause)) }
	r.ex = &Execution{key: c.req.Key(), lost: make(chan struct{})}
	act := r.drive(ctx, claim.Event{Kind: claim.Begin})
	if act.Has(claim.Watch) {
		act = r.drive(ctx, claim.Event{Kind: claim.Start, Now: time.Now(), CallerGone: ctx.Err() != nil})
	}
	if act.Has(claim.StartRun) {
		r.started()
		e.held.add(l)
		context.AfterFunc(l.ctx, func() { e.held.remove(l) })
		context.AfterFunc(l.ctx, l.observeEnd) // also when nobody releases it
		return l, sight{}
	}
	e.unlock(processing)
	l.cancel(lock.ErrNotAcquired)
	switch cause := r.cause; {
	case act.Has(claim.Look) && r.row.State != fallback.Absent:
		return nil, sight{next: judge(&r.row), row: r.row}
	case act.Has(claim.Look):
		return nil, sight{next: unseen}
	default:
		r.handOver(act)
		return nil, sight{next: failed, err: cmp.Or(cause, lock.ErrTooLate)}
	}
}

// engineLease is the lease of a lock in the ledger.
type engineLease struct {
	run     *run
	ctx     context.Context
	cancel  context.CancelCauseFunc
	release sync.Once
	told    sync.Once
	err     error // of the release
}

// Name implements lock.Lease.
func (l *engineLease) Name() string { return l.run.call.req.ID }

// Context implements lock.Lease.
func (l *engineLease) Context() context.Context { return l.ctx }

// Done implements lock.Lease.
func (l *engineLease) Done() <-chan struct{} { return l.ctx.Done() }

// Fence implements lock.Lease.
func (l *engineLease) Fence() int64 { return l.run.ex.fence }

// ValidUntil implements lock.Lease.
func (l *engineLease) ValidUntil() time.Time {
	g := l.run.snapshot().Grant
	if g.Cap.Before(g.Deadline) {
		return g.Cap
	}
	return g.Deadline
}

// Extend implements lock.Lease.
func (l *engineLease) Extend(ctx context.Context) error {
	if err := context.Cause(l.ctx); err != nil {
		return l.failed("extend", err)
	}
	err := l.run.renewNow(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fallback.ErrRefused):
		return l.failed("extend", cmp.Or(context.Cause(l.ctx), lock.ErrLost)) // released meanwhile, or lost
	}
	return &lock.Error{Op: "extend", Name: l.Name(), Reason: lock.ErrNoQuorum, Ctx: ctx.Err(), Nodes: []lock.NodeError{{Node: "ledger", Err: err}}}
}

func (l *engineLease) failed(op string, cause error) error {
	reason := lock.ErrLost
	if errors.Is(cause, lock.ErrNotHeld) {
		reason = lock.ErrNotHeld
	}
	return &lock.Error{Op: op, Name: l.Name(), Reason: reason}
}

// Release implements lock.Lease. What the ledger does not confirm now goes on
// in the background.
func (l *engineLease) Release(ctx context.Context) error {
	l.release.Do(func() {
		if context.Cause(l.ctx) != nil {
			l.err = l.failed("release", lock.ErrLost)
		}
		l.cancel(lock.ErrNotHeld)
		l.observeEnd()
		r := l.run
		act := r.drive(ctx, claim.Event{Kind: claim.Returned, Outcome: claim.Release})
		r.handOver(act)
		r.engine.unlock(r.lease)
	})
	return l.err
}

// leases are the locks that an engine holds.
type leases struct {
	mu   sync.Mutex
	held map[*engineLease]struct{}
}

func (h *leases) add(l *engineLease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = make(map[*engineLease]struct{})
	}
	h.held[l] = struct{}{}
}

func (h *leases) remove(l *engineLease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, l)
}

// loseAll ends the leases of an engine that closes: nobody renews them.
func (h *leases) loseAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.held {
		l.run.step(claim.Event{Kind: claim.Left})
		l.cancel(fmt.Errorf("%w: %w", lock.ErrLost, ErrClosed))
		delete(h.held, l)
	}
}
