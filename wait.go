package redfence

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

// Waiters re-read the row after each hint, and without hints after a pause
// that doubles from firstPoll to lastPoll (R19).
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = time.Second
)

// await waits until the row is no longer worked on, or the time to wait is up.
func (e *Engine) await(ctx, waitCtx context.Context, c *call, s sight) sight {
	if s.locked {
		c.flight.waits()
		if s = e.awaitRelease(ctx, waitCtx, c, s.err); s.next != waitFor {
			return s
		}
	}
	if m := e.compare(c.req.Fingerprint, s.row.Fingerprint); m != same {
		return mismatched(m, &s.row)
	}
	if c.policy.Wait < 0 || waitCtx.Err() != nil {
		return s
	}
	c.flight.waits()
	w := e.watch(c)
	defer w.stop()
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		if s = e.lookAtRow(waitCtx, c); s.next != waitFor || !w.wait(waitCtx, wait) {
			break
		}
	}
	if s.next == failed && waitCtx.Err() != nil {
		s.next = waitFor
	}
	return s
}

// releasePoll is how long a waiter relies on the lock's holder alone, and
// releaseTries how often one that finds the lock taken anew.
const (
	releasePoll  = 250 * time.Millisecond
	releaseTries = 3
)

// awaitRelease waits for whoever holds the processing lock. Its put goes before
// its release, and to the same nodes, so a waiter that is told finds the response
// in the cache and costs the ledger nothing. Without a response the lock is there
// to be had. Without a hint the row is read: always before the call is told that
// its key is in progress (R7).
func (e *Engine) awaitRelease(ctx, waitCtx context.Context, c *call, refused error) sight {
	for range releaseTries {
		if !e.released(waitCtx, c, refused) {
			break
		}
		if rec, ok := e.cached(waitCtx, c); ok {
			return sight{next: replay, row: rec, cache: true}
		}
		s := e.lockOrWait(ctx, c)
		if !s.locked {
			return s
		}
		refused = s.err
	}
	return e.lookAtRow(ctx, c)
}

// released waits until the lock that was refused may have been released; false:
// for nothing.
func (e *Engine) released(ctx context.Context, c *call, refused error) bool {
	released, stop := e.locks.WatchOnce(c.digest.String(), refused)
	defer stop()
	w := watcher{released: released}
	hinted, _ := w.hint(ctx, releasePoll)
	return hinted
}

// A watcher is woken when a key may have changed: by the release of the
// processing lock, or by the ledger. Both are hints.
type watcher struct {
	released, changed <-chan struct{}
	stop              func()
}

// On the fallback route nobody holds the processing lock.
func (e *Engine) watch(c *call) watcher {
	var w watcher
	stopLock, stopLedger := func() {}, func() {}
	if e.breaker.Route() == observe.Primary {
		w.released, stopLock = e.locks.Watch(c.digest.String())
	}
	if waker, ok := e.ledger.(fallback.Waker); ok {
		w.changed, stopLedger = waker.Watch(c.digest)
	}
	w.stop = func() { stopLock(); stopLedger() }
	return w
}

// wait waits for a hint, or about as long as it is told to. It returns false
// when ctx has ended.
func (w watcher) wait(ctx context.Context, d time.Duration) bool {
	_, ok := w.hint(ctx, d)
	return ok
}

// hint is wait, and says whether there was a hint.
func (w watcher) hint(ctx context.Context, d time.Duration) (hinted, ok bool) {
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, false
	case <-w.released:
	case <-w.changed:
	case <-timer.C:
		return false, true
	}
	return true, true
}

// wake hints to the waiters of every process that the row has changed. It is
// sent after the commit, as a statement of its own (R19).
func (e *Engine) wake(d fallback.Digest) {
	if waker, ok := e.ledger.(fallback.Waker); ok {
		_ = waker.Wake(e.background.ctx, d)
	}
}
