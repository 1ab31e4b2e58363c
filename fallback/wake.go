package fallback

import (
	"context"
	"sync"
)

// A Waker passes hints that a row has changed (R19). A hint may be lost or
// come for nothing: waiters re-read the row after they have begun to watch,
// after each hint, and once a second.
type Waker interface {
	// Wake hints to every waiter for the digest, in every process. It does not
	// wait for anything.
	Wake(ctx context.Context, d Digest) error
	// Watch begins to watch. The channel has room for one hint; stop ends it
	// and may be called more than once.
	Watch(d Digest) (wake <-chan struct{}, stop func())
}

var _ Waker = (*Memory)(nil)

// Wake implements Waker.
func (m *Memory) Wake(_ context.Context, d Digest) error {
	m.hint(d)
	return nil
}

// hub spreads hints to the waiters of this process. Its zero value is ready.
type hub struct {
	hubMu    sync.Mutex
	watchers map[Digest]map[chan struct{}]struct{}
}

// Watch implements Waker.
func (h *hub) Watch(d Digest) (<-chan struct{}, func()) {
	wake := make(chan struct{}, 1)
	h.hubMu.Lock()
	defer h.hubMu.Unlock()
	if h.watchers == nil {
		h.watchers = make(map[Digest]map[chan struct{}]struct{})
	}
	if h.watchers[d] == nil {
		h.watchers[d] = make(map[chan struct{}]struct{})
	}
	h.watchers[d][wake] = struct{}{}
	return wake, func() { h.unwatch(d, wake) }
}

func (h *hub) unwatch(d Digest, wake chan struct{}) {
	h.hubMu.Lock()
	defer h.hubMu.Unlock()
	delete(h.watchers[d], wake)
	if len(h.watchers[d]) == 0 {
		delete(h.watchers, d)
	}
}

// hint wakes the waiters for one digest.
func (h *hub) hint(d Digest) {
	h.hubMu.Lock()
	defer h.hubMu.Unlock()
	for wake := range h.watchers[d] {
		nudge(wake)
	}
}

// hintAll wakes every waiter: hints may have been lost.
func (h *hub) hintAll() {
	h.hubMu.Lock()
	defer h.hubMu.Unlock()
	for _, of := range h.watchers {
		for wake := range of {
			nudge(wake)
		}
	}
}

func nudge(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default: // a hint is waiting already
	}
}
