package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redfence/redfence/internal/node"
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
	return r.subscriber.watch(r.key(name))
}

// WatchOnce is Watch for one release, and for a caller that looks elsewhere than
// at the lock. It asks one node only, the first one from the name's home on that
// has refused the lock with this error; it signals as well when the node has no
// such lock any more.
func (r *Redlock) WatchOnce(name string, refused error) (released <-chan struct{}, stop func()) {
	n := len(r.nodes)
	return r.subscriber.next(r.key(name), firstTaken(refused, node.Home(name, n), n))
}

// firstTaken is the first of n nodes, from one of them on, that has refused the
// lock because it is taken.
func firstTaken(refused error, from, n int) int {
	var e *Error
	if !errors.As(refused, &e) {
		return from
	}
	for i := range n {
		at := (from + i) % n
		if slices.ContainsFunc(e.Nodes, func(e NodeError) bool { return e.Index == at && errors.Is(e.Err, ErrTaken) }) {
			return at
		}
	}
	return from
}

// Acquire waits until it holds the lock, or ctx ends: its error is then an
// *Error that matches ctx.Err() and says what the last try met. Waiters of one
// process queue up, and the first of them is woken by the release, in
// whatever process that happens; polling is only a safety net. It also waits
// for a quorum to come back, so give it a context that ends.
func (r *Redlock) Acquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	o, err := r.options(name, opts)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	line, leave, err := r.queues.join(ctx, name)
	if err != nil {
		r.refused(name, err, start)
		return nil, &Error{Op: opAcquire, Name: name, Reason: ErrTaken, Ctx: err}
	}
	defer leave()
	w := waiter{r: r, name: name, o: o, here: line.wake}
	if o.Fair {
		w.place = r.newPlace(name)
		defer w.place.leave()
	}
	h, err := w.acquire(ctx)
	if err != nil {
		r.refused(name, err, start)
		return nil, err
	}
	r.acquired(h, start)
	return h, nil
}

// waiter is the one waiter of this process that talks to Redis about a name.
type waiter struct {
	r     *Redlock
	name  string
	o     Options
	place *place          // nil: not fair
	here  <-chan struct{} // released by this process
	there <-chan struct{} // released somewhere
	// misses are tries in a row that met neither a holder nor success.
	misses int
}

// acquire tries, and tries again whenever there is a reason to.
func (w *waiter) acquire(ctx context.Context) (*held, error) {
	h, err := w.try(ctx)
	if err == nil {
		return h, nil
	}
	there, stop := w.r.Watch(w.name)
	defer stop()
	w.there = there
	for {
		if errors.Is(err, ErrClosed) || ctx.Err() != nil {
			return nil, withContext(err, ctx.Err())
		}
		if !w.sleep(ctx, w.pause(err)) {
			return nil, withContext(err, ctx.Err())
		}
		if h, err = w.try(ctx); err == nil {
			return h, nil
		}
	}
}

// sleep waits for a wake-up, but no longer than d. False: ctx has ended.
func (w *waiter) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.here:
	case <-w.there:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}

// errNotFirst is the cause of a try that was not made.
var errNotFirst = &Error{Op: opAcquire, Reason: ErrTaken, queued: true}

// try makes one try, unless others are to be served before.
func (w *waiter) try(ctx context.Context) (*held, error) {
	if w.place != nil && !w.place.first(ctx) {
		e := *errNotFirst
		e.Name = w.name
		return nil, &e
	}
	return w.r.try(ctx, w.name, w.o)
}

// pause is how long to wait for a wake-up before trying all the same.
func (w *waiter) pause(last error) time.Duration {
	longest := longestPoll
	if w.place != nil {
		longest = fairPoll
	}
	var e *Error
	if errors.As(last, &e) && e.queued {
		return longest
	}
	if e != nil && e.Reason == ErrTaken && e.Remaining > 0 && !e.divided {
		w.misses = 0
		return min(e.Remaining+afterLapse, longest)
	}
	w.misses++
	most := min(firstRetry<<min(w.misses, 10), longestRetry)
	return most/2 + rand.N(most/2)
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
