package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// longestPoll is how long a waiter relies on wake-ups alone.
	longestPoll = time.Second
	// firstRetry and longestRetry bound the pause after a try that divided
	// the nodes, or that too few answered; it doubles from one to the other.
	firstRetry   = 2 * time.Millisecond
	longestRetry = 250 * time.Millisecond
	// afterLapse is added to a holder's remaining TTL.
	afterLapse = 2 * time.Millisecond
)

// Watch returns a channel that is signalled when name may have been released,
// here or in another process. It is a hint: it can be missed, and it can come
// for nothing. Call stop when it is no longer needed.
func (r *Redlock) Watch(name string) (released <-chan struct{}, stop func()) {
	return r.subscriber.watch(r.channel(name))
}

// Acquire waits until it holds the lock, or ctx ends: its error is then an
// *Error that matches ctx.Err() and says what the last try met. Waiters of one
// process queue up, and the first of them is woken by the release, in
// whatever process that happens; polling is only a safety net. It also waits
// for a quorum to come back.
func (r *Redlock) Acquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	o, err := r.options(name, opts)
	if err != nil {
		return nil, err
	}
	line, leave, err := r.queues.join(ctx, name)
	if err != nil {
		return nil, &Error{Op: opAcquire, Name: name, Reason: ErrTaken, Ctx: err}
	}
	defer leave()
	h, err := r.try(ctx, name, o)
	if err == nil {
		return h, nil
	}
	w := waiter{r: r, name: name, o: o, here: line.wake}
	h, err = w.wait(ctx, err)
	if err != nil {
		return nil, err
	}
	return h, nil
}

// waiter is the one waiter of this process that talks to Redis about a name.
type waiter struct {
	r      *Redlock
	name   string
	o      Options
	here   <-chan struct{} // released by this process
	there  <-chan struct{} // released somewhere
	misses int             // tries in a row that met neither holder nor success
}

// wait tries again whenever there is a reason to, until it holds the lock.
func (w *waiter) wait(ctx context.Context, last error) (*held, error) {
	there, stop := w.r.Watch(w.name)
	defer stop()
	w.there = there
	for {
		if errors.Is(last, ErrClosed) || ctx.Err() != nil {
			return nil, withContext(last, ctx.Err())
		}
		timer := time.NewTimer(w.pause(last))
		select {
		case <-w.here:
		case <-w.there:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, withContext(last, ctx.Err())
		}
		timer.Stop()
		h, err := w.r.try(ctx, w.name, w.o)
		if err == nil {
			return h, nil
		}
		last = err
	}
}

// pause is how long to wait for a wake-up before trying all the same.
func (w *waiter) pause(last error) time.Duration {
	var e *Error
	if errors.As(last, &e) && e.Reason == ErrTaken && e.Remaining > 0 && !e.divided {
		w.misses = 0
		return min(e.Remaining+afterLapse, longestPoll)
	}
	w.misses++
	longest := min(firstRetry<<min(w.misses, 10), longestRetry)
	return longest/2 + rand.N(longest/2)
}

// withContext adds the context's error to the last try's.
func withContext(last, ctxErr error) error {
	var e *Error
	if ctxErr == nil || !errors.As(last, &e) || e.Ctx != nil {
		return last
	}
	with := *e
	with.Ctx = ctxErr
	return &with
}
