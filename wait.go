package redfence

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redfence/redfence/fallback"
)

// Waiters re-read the row after each hint, and without hints after a pause
// that doubles from firstPoll to lastPoll (R19).
const (
	firstPoll = 10 * time.Millisecond
	lastPoll  = time.Second
)

// A watcher is woken when a key may have changed: by the release of the
// processing lock, or by the ledger. Both are hints.
type watcher struct {
	released, changed <-chan struct{}
	stop              func()
}

func (e *Engine) watch(c *call) watcher {
	var w watcher
	var stopLock, stopLedger func()
	w.released, stopLock = e.locks.Watch(c.digest.String())
	stopLedger = func() {}
	if waker, ok := e.ledger.(fallback.Waker); ok {
		w.changed, stopLedger = waker.Watch(c.digest)
	}
	w.stop = func() { stopLock(); stopLedger() }
	return w
}

// wait waits for a hint, or about as long as it is told to. It returns false
// when ctx has ended.
func (w watcher) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d/2 + rand.N(d/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.released:
	case <-w.changed:
	case <-timer.C:
	}
	return true
}

// wake hints to the waiters of every process that the row has changed. It is
// sent after the commit, as a statement of its own (R19).
func (e *Engine) wake(d fallback.Digest) {
	if waker, ok := e.ledger.(fallback.Waker); ok {
		_ = waker.Wake(e.background.ctx, d)
	}
}
