package observe

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Tee makes one observer of several: each event goes to all of them, one after
// the other, on the goroutine that sent it. nil observers are left out.
func Tee(observers ...Observer) Observer {
	all := present(observers)
	return Func(func(e Event) {
		for _, o := range all {
			o.Observe(e)
		}
	})
}

func present(observers []Observer) []Observer {
	var all []Observer
	for _, o := range observers {
		if o != nil {
			all = append(all, o)
		}
	}
	return all
}

// EventsDropped says that a Fanout had no room for some events. It is told to
// the fan-out's own observers: at most once a second while events keep coming,
// and at the end of a burst.
type EventsDropped struct {
	// Count is how many were dropped since the last time.
	Count int64
}

// Name implements Event.
func (EventsDropped) Name() string { return "events_dropped" }

// DefaultBuffer is how many events a Fanout holds when it is not told.
const DefaultBuffer = 4096

// toldEvery bounds how often dropped events are told while others keep coming,
// so that an observer that is too slow is not slowed down further.
const toldEvery = time.Second

// A Fanout stands between components that must not be blocked and observers
// that may be slow. Observe puts the event into a buffer and returns; one
// goroutine hands the events to the observers, in the order in which they were
// put in. When the buffer is full the event is dropped and counted.
//
// The observers share the goroutine: a slow one delays the others. Give one
// that may hang a Fanout of its own.
type Fanout struct {
	observers []Observer
	queue     chan Event
	dropped   atomic.Int64
	done      chan struct{}

	// mu keeps Close from closing the queue under a sender. Senders hold it
	// for reading, and never while they wait.
	mu     sync.RWMutex
	closed bool
}

// NewFanout starts a fan-out that holds up to buffer events; 0 or less means
// DefaultBuffer. Close ends its goroutine.
func NewFanout(buffer int, observers ...Observer) *Fanout {
	if buffer <= 0 {
		buffer = DefaultBuffer
	}
	f := &Fanout{
		observers: present(observers),
		queue:     make(chan Event, buffer),
		done:      make(chan struct{}),
	}
	go f.deliver()
	return f
}

// Observe implements Observer. It never blocks. After Close it drops.
func (f *Fanout) Observe(e Event) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.closed {
		f.dropped.Add(1)
		return
	}
	select {
	case f.queue <- e:
	default:
		f.dropped.Add(1)
	}
}

// Dropped returns how many events were dropped so far.
func (f *Fanout) Dropped() int64 { return f.dropped.Load() }

// Close takes no event any more and waits until the observers have got those
// that are in the buffer, or ctx ends. It may be called more than once, but
// not by an observer of this fan-out.
func (f *Fanout) Close(ctx context.Context) error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.queue)
	}
	f.mu.Unlock()
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("observe: about %d events not delivered: %w", len(f.queue)+1, context.Cause(ctx))
	}
}

// deliver is the fan-out's goroutine.
func (f *Fanout) deliver() {
	defer close(f.done)
	var told int64 // of the dropped events
	var last time.Time
	for e := range f.queue {
		f.send(e)
		// An event is dropped only while the buffer is full, so there is a
		// later event whose turn tells of it: no timer is needed.
		n := f.dropped.Load() - told
		if n > 0 && (len(f.queue) == 0 || time.Since(last) >= toldEvery) {
			f.send(EventsDropped{Count: n})
			told, last = told+n, time.Now()
		}
	}
}

func (f *Fanout) send(e Event) {
	for _, o := range f.observers {
		o.Observe(e)
	}
}
