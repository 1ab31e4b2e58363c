package lock

import (
	"context"
	"sync"
	"time"

	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/observe"
)

// held is the Lease of a Redlock.
type held struct {
	r     *Redlock
	name  string
	key   string
	token string
	fence int64
	since time.Time // for people and metrics
	ttl   time.Duration
	// acquired is the call that won; what it left on its way is undone when
	// the lease ends.
	acquired *call

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	state  leaseState
	until  time.Time
	limit  time.Time   // MaxHold; zero: none
	timer  *time.Timer // fires at the next renewal, at the latest at until
	due    time.Time   // of the next renewal
	warn   *time.Timer // WithWarn, if any
	early  time.Duration
	flight *extension
	seeded uint64 // nodes on which an extension has put the lock back
}

type leaseState uint8

const (
	stateHeld leaseState = iota
	stateReleased
	stateLost
)

// releasePatience is how many times NodeTimeout a release waits for its verdict.
// It is on its way whatever the caller gets to hear, so nothing is lost by
// waiting longer than for an acquire.
const releasePatience = 4

// renewals per TTL: two may fail before the lease is in danger.
const renewals = 3

// hold makes the lease of a call that was won.
func (r *Redlock) hold(ctx context.Context, name, token string, fence int64, o Options, c *call, until time.Time) *held {
	h := &held{r: r, since: time.Now(), name: name, key: r.key(name), token: token, fence: fence, ttl: o.TTL, acquired: c}
	h.ctx, h.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.MaxHold > 0 {
		h.limit = time.Now().Add(o.MaxHold)
	}
	h.until = h.within(until)
	h.due = time.Now().Add(o.TTL / renewals)
	h.timer = time.AfterFunc(min(o.TTL/spreadShare, time.Until(h.until)), h.tick)
	if o.Warn != nil {
		h.early = o.WarnBefore
		h.warn = time.AfterFunc(time.Until(h.until)-h.early, func() { h.warned(o.Warn) })
	}
	return h
}

// rearm follows a new end of the validity. h.mu is held.
func (h *held) rearm(until time.Time) {
	h.until = h.within(until)
	h.setTimer()
	if h.warn != nil {
		h.warn.Reset(time.Until(h.until) - h.early)
	}
}

// within bounds the validity by MaxHold. h.mu is held.
func (h *held) within(until time.Time) time.Time {
	if h.limit.IsZero() || until.Before(h.limit) {
		return until
	}
	return h.limit
}

// warned tells that the end of the validity is near.
func (h *held) warned(tell func(Lease)) {
	h.mu.Lock()
	near := h.state == stateHeld && time.Until(h.until) <= h.early
	h.mu.Unlock()
	if near {
		tell(h)
	}
}

// Name implements Lease.
func (h *held) Name() string { return h.name }

// Context implements Lease.
func (h *held) Context() context.Context { return h.ctx }

// Done implements Lease.
func (h *held) Done() <-chan struct{} { return h.ctx.Done() }

// Fence implements Lease.
func (h *held) Fence() int64 { return h.fence }

// ValidUntil implements Lease.
func (h *held) ValidUntil() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

// setTimer sets the timer to what comes first. h.mu is held.
func (h *held) setTimer() {
	next := h.until
	if h.due.Before(next) {
		next = h.due
	}
	h.timer.Reset(max(time.Until(next), 0))
}

// tick tells the rest of the nodes, renews when that is due, and is the lost signal at the end of the last
// confirmed validity. It waits for nothing: a renewal that hangs cannot delay
// the signal.
func (h *held) tick() {
	h.acquired.askRest()
	h.mu.Lock()
	if h.state != stateHeld || !time.Now().Before(h.until) {
		if failpoint.Mutant("lost-signal-late") {
			time.Sleep(h.ttl)
		}
		if h.endAs(stateLost, ErrLost) {
			h.giveBack() // what a renewal has prolonged at a minority
		}
		return
	}
	defer h.mu.Unlock()
	if !time.Now().Before(h.due) {
		h.due = h.until // until the renewal that starts now has ended
		h.extendAside()
	}
	h.setTimer()
}

// endAs ends a held lease and unlocks h.mu. It returns whether it was held.
func (h *held) endAs(s leaseState, cause error) bool {
	if h.state != stateHeld {
		h.mu.Unlock()
		return false
	}
	h.state = s
	h.timer.Stop()
	if h.warn != nil {
		h.warn.Stop()
	}
	h.mu.Unlock()
	h.cancel(cause)
	h.ended(s)
	return true
}

// ended tells the observer, if there is one.
func (h *held) ended(s leaseState) {
	switch {
	case !h.r.observed:
	case s == stateLost:
		h.r.cfg.Observer.Observe(observe.LockLost{Lock: refOf(h.name), Fence: h.fence})
	default:
		h.r.cfg.Observer.Observe(observe.LockReleased{Lock: refOf(h.name), Fence: h.fence, Held: time.Since(h.since)})
	}
}

// lose ends the lease before its time, because a quorum has lost it. What is left
// of it stays until the end of the validity, on which its holder may still rely:
// it keeps rivals out where nodes under guard would not have voted for them.
func (h *held) lose() {
	h.mu.Lock()
	until := h.until
	if h.endAs(stateLost, ErrLost) {
		time.AfterFunc(time.Until(until), h.giveBack)
	}
}

// valid says whether the lease is held inside its validity. h.mu is held.
func (h *held) valid() bool { return h.state == stateHeld && time.Now().Before(h.until) }

// Release implements Lease.
func (h *held) Release(ctx context.Context) error {
	h.mu.Lock()
	if h.state == stateReleased {
		h.mu.Unlock()
		return nil
	}
	inTime := h.valid()
	if !h.endAs(stateReleased, ErrNotHeld) || !inTime {
		h.mu.Lock()
		h.state = stateLost
		h.mu.Unlock()
		h.giveBack()
		return &Error{Op: opRelease, Name: h.name, Reason: ErrLost}
	}
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	h.acquired.retire()
	c := h.releaseCall()
	err := c.decide(ctx, releasePatience*h.r.cfg.NodeTimeout)
	h.r.queues.released(h.name)
	if err != nil {
		return failure(opRelease, h.name, c, ctx.Err())
	}
	return nil
}

// releaseLater queues the release and does not wait for it.
func (h *held) releaseLater() {
	h.mu.Lock()
	if h.endAs(stateReleased, ErrNotHeld) {
		h.giveBack()
	}
}

// giveBack sends the release to every node that may hold the lock, and does not
// wait for it. The lease has ended. The release follows, in each node's queue,
// whatever was sent for the lease before.
func (h *held) giveBack() {
	h.acquired.retire()
	command := releaseCommand(h.key, h.token)
	for _, n := range h.acquired.mayHold(h.seeded) {
		newCleanup(n, command).send()
	}
}

// releaseCall prepares the release. It follows, in each node's queue, whatever
// was sent for the lease before. A node that does not answer gets it later.
func (h *held) releaseCall() *call {
	c := h.r.newCall(opRelease, readRelease)
	h.acquired.leaveOutOf(c, h.seeded)
	c.command(releaseScript, releaseCommand(h.key, h.token))
	c.failed = func(s *slot) { h.r.clean(s.node(), h.key, h.token, false) }
	return c
}

// ReleaseLater gives a lease back without waiting for the answers, at no cost
// of a goroutine where the lease allows it.
func ReleaseLater(lease Lease) {
	if l, ok := lease.(interface{ releaseLater() }); ok {
		l.releaseLater()
		return
	}
	go func() { _ = lease.Release(context.Background()) }() // nobody waits
}
