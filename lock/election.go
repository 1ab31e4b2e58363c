package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// An Election makes one of many candidates the leader. Leadership is a lock:
// the leader renews it, and when it dies another candidate follows within the
// lock's TTL. A term is numbered by its fence, which grows from term to term.
// It is safe for concurrent use.
type Election struct {
	locker Locker
	name   string
	opts   []Option
}

// NewElection returns the election of that name. Every candidate needs a
// locker of the same deployment; the options are those of each acquire.
func NewElection(locker Locker, name string, opts ...Option) *Election {
	return &Election{locker: locker, name: name, opts: opts}
}

// A Term is the time of one leader. All methods are safe for concurrent use.
type Term struct{ lease Lease }

// Campaign waits until this candidate leads, or ctx ends.
func (e *Election) Campaign(ctx context.Context) (*Term, error) {
	lease, err := e.locker.Acquire(ctx, e.name, e.opts...)
	if err != nil {
		return nil, fmt.Errorf("campaign: %w", err)
	}
	// A renewal lets the nodes know the term's number, for those who observe.
	// A failure is not final: the lease is valid, and renewals go on.
	_ = lease.Extend(ctx)
	return &Term{lease: lease}, nil
}

// Number is larger for every later term. 0: the locker hands out no fences.
func (t *Term) Number() int64 { return t.lease.Fence() }

// Context ends with the term: the leader must stop leading then.
func (t *Term) Context() context.Context { return t.lease.Context() }

// Done is the channel of Context.
func (t *Term) Done() <-chan struct{} { return t.lease.Done() }

// Resign ends the term, so that another candidate can follow at once. It is
// idempotent and works on a context that is already done.
func (t *Term) Resign(ctx context.Context) error { return t.lease.Release(ctx) }

// A Leader is who leads, as seen from outside.
type Leader struct {
	// Owner is the leader's Config.Owner; empty: nobody leads.
	Owner string
	// Term is the number of its term, 0 while it is not known yet.
	Term int64
}

// An Inspector is a Locker that can tell who holds a lock. *Redlock is one.
type Inspector interface {
	// Inspect says who holds a lock now, as far as the nodes answer.
	Inspect(ctx context.Context, name string) (State, error)
	// Watch hints that a lock may have been released, until stop is called.
	Watch(name string) (released <-chan struct{}, stop func())
}

// ErrCannotObserve: the election's locker cannot tell who holds a lock.
var ErrCannotObserve = errors.New("the locker is no Inspector")

// Observe reports who leads: first the state as it is, then each change, until
// ctx ends and the channel is closed. Changes that follow each other faster
// than the reader reads are merged; a term that ends without a resignation is
// noticed within a second. While no quorum answers, nothing is reported.
func (e *Election) Observe(ctx context.Context) (<-chan Leader, error) {
	inspector, ok := e.locker.(Inspector)
	if !ok {
		return nil, ErrCannotObserve
	}
	leaders := make(chan Leader)
	go e.observe(ctx, inspector, leaders)
	return leaders, nil
}

func (e *Election) observe(ctx context.Context, inspector Inspector, leaders chan<- Leader) {
	defer close(leaders)
	changed, stop := inspector.Watch(e.name)
	defer stop()
	tick := time.NewTicker(longestPoll)
	defer tick.Stop()
	told := Leader{Term: -1} // nothing yet
	for {
		if now, ok := e.leader(ctx, inspector); ok && now != told {
			select {
			case leaders <- now:
				told = now
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (e *Election) leader(ctx context.Context, inspector Inspector) (Leader, bool) {
	s, err := inspector.Inspect(ctx, e.name)
	if err != nil {
		return Leader{}, false
	}
	if !s.Held {
		return Leader{}, true
	}
	return Leader{Owner: s.Owner, Term: s.Fence}, true
}
