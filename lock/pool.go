package lock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
)

// redsync counts the votes of a round. It starts a goroutine per node, which
// asks that node's Pool for a connection and gives its one command to it. Ours
// are bound to the call by the context that Get receives: the connection is
// the call's slot of that node, which has been asked already and says what it
// has heard. The call is decided before redsync counts, so none of those
// goroutines waits, whatever nodes are still out.

// callContext carries a call through redsync.
type callContext struct {
	context.Context
	call *call
}

type callKey struct{}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

// pool is one node's redis.Pool.
type pool struct{ index int }

// Get returns the slot of ctx's call.
func (p pool) Get(ctx context.Context) (redis.Conn, error) {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return nil, errors.New("lock: redsync asked for a connection outside a call")
	}
	return (*conn)(&c.slots[p.index]), nil
}

// conn is a slot as the redis.Conn of its node, for the one command of its
// call.
type conn slot

var (
	errUnbound   = errors.New("lock: not a command of the quorum algorithm")
	errUndecided = errors.New("lock: decided without this node")
)

// SetNX is the acquire of this node.
func (c *conn) SetNX(string, string, time.Duration) (bool, error) {
	v, err := (*slot)(c).said()
	return v == yes, err
}

// Eval is the extension of this node or, after an acquire that failed,
// redsync's clean-up, which is the call's own business.
func (c *conn) Eval(*redis.Script, ...any) (any, error) {
	if c.call.kind == opAcquire {
		return int64(0), nil
	}
	v, err := (*slot)(c).said()
	if v == yes {
		return int64(1), err
	}
	return int64(0), err
}

// said returns the node's vote as far as it counts for redsync: one that is
// out when the call is decided is an error.
func (s *slot) said() (vote, error) {
	s.call.mu.Lock()
	defer s.call.mu.Unlock()
	switch s.vote {
	case out:
		return out, errUndecided
	case failed:
		return failed, s.err
	}
	return s.vote, nil
}

// Get is not used by the algorithm.
func (c *conn) Get(string) (string, error) { return "", errUnbound }

// Set is not used by the algorithm.
func (c *conn) Set(string, string) (bool, error) { return false, errUnbound }

// ScriptLoad is not used by the algorithm.
func (c *conn) ScriptLoad(*redis.Script) error { return errUnbound }

// PTTL is not used by the algorithm.
func (c *conn) PTTL(string) (time.Duration, error) { return 0, errUnbound }

// Close does nothing: the connection belongs to the call.
func (c *conn) Close() error { return nil }

// redsyncOver returns a redsync for calls over n nodes.
func redsyncOver(n int) *redsync.Redsync {
	pools := make([]redis.Pool, n)
	for i := range pools {
		pools[i] = pool{index: i}
	}
	return redsync.New(pools...)
}

// mutexOptions are how redsync is used: one try, every deadline and the drift
// as ours. The token is the call's business, so redsync has none to draw.
func mutexOptions(ttl, nodeTimeout time.Duration) []redsync.Option {
	return []redsync.Option{
		redsync.WithExpiry(ttl),
		redsync.WithTries(1),
		redsync.WithFailFast(true),
		redsync.WithDriftFactor(float64(drift(ttl)) / float64(ttl)),
		redsync.WithTimeoutFactor(float64(nodeTimeout) / float64(ttl)),
		redsync.WithGenValueFunc(func() (string, error) { return "", nil }),
	}
}

// viaRedsync lets redsync count a call that is decided: nil if it was won.
func (r *Redlock) viaRedsync(c *call, key string, ttl time.Duration) error {
	options := r.usual
	if ttl != r.cfg.TTL {
		options = mutexOptions(ttl, r.cfg.NodeTimeout)
	}
	m := r.redsync.NewMutex(key, options...)
	bound := &callContext{Context: context.Background(), call: c}
	if c.kind == opAcquire {
		return m.TryLockContext(bound)
	}
	ok, err := m.ExtendContext(bound)
	if !ok && err == nil {
		err = redsync.ErrFailed
	}
	return err
}

// decide sends the round and waits for its verdict, for at most limit.
func (c *call) decide(ctx context.Context, limit time.Duration) error {
	patience := limit
	if c.spares > 0 {
		patience = limit / hedgeShare
	}
	deadline := c.timers.start(patience)
	defer c.timers.stop(deadline)
	c.send()
	ended := c.wait(ctx, deadline)
	if !ended && patience < limit {
		c.askRest()
		deadline.Reset(limit - patience)
		ended = c.wait(ctx, deadline)
	}
	if !ended {
		c.expire()
	}
	if c.outcome() != won {
		return errUndecided
	}
	return nil
}

// wait waits for the verdict, or for the caller's end. False: the deadline came
// first.
func (c *call) wait(ctx context.Context, deadline *time.Timer) bool {
	select {
	case <-c.decided:
	case <-ctx.Done():
		c.cancel()
	case <-deadline.C:
		return false
	}
	return true
}

// timers keeps the idle ones of one locker. They are not shared by all lockers
// of the program: a timer of one bubble of testing/synctest must not get into
// another.
type timers struct{ idle sync.Pool }

func (t *timers) start(d time.Duration) *time.Timer {
	if timer, ok := t.idle.Get().(*time.Timer); ok {
		timer.Reset(d)
		return timer
	}
	return time.NewTimer(d)
}

func (t *timers) stop(timer *time.Timer) {
	timer.Stop()
	t.idle.Put(timer)
}

// run runs an acquire or an extension to its verdict; nil means that it was
// won: nothing is held that redsync has not counted. The call's own count says
// when there is nothing to wait for any more, and whether there is anything to
// win; of a guarded call, and with Direct, it stands alone. A differential test
// compares the two. A
// release decides nothing, and is not counted.
func (r *Redlock) run(ctx context.Context, c *call, key string, ttl time.Duration) error {
	err := c.decide(ctx, r.cfg.NodeTimeout)
	if err != nil || r.cfg.Direct || r.guard != nil {
		return err
	}
	return r.viaRedsync(c, key, ttl)
}
