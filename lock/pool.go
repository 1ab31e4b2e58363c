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
// the call's slot of that node, the command is the one that the slot already
// carries, and all of the goroutines return as soon as the call is decided,
// whatever nodes are still out.

// callContext carries a call through redsync.
type callContext struct {
	context.Context
	call *call
}

type callKey struct{}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// pool is one node's redis.Pool.
type pool struct{ index int }

// Get returns the slot of ctx's call.
func (p pool) Get(ctx context.Context) (redis.Conn, error) {
	bound, ok := ctx.Value(callKey{}).(*callContext)
	if !ok {
		return nil, errors.New("lock: redsync asked for a connection outside a call")
	}
	bound.call.bind(ctx, bound.Context)
	return (*conn)(&bound.call.slots[p.index]), nil
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
	v, err := c.round()
	return v == yes, err
}

// Eval is the extension of this node or, after an acquire that failed,
// redsync's clean-up: the call does that itself, detached.
func (c *conn) Eval(*redis.Script, ...any) (any, error) {
	if c.call.kind == opAcquire {
		c.call.giveUp()
		return int64(0), nil
	}
	v, err := c.round()
	if v == yes {
		return int64(1), err
	}
	return int64(0), err
}

// round sends the call's round, if nobody has yet, and waits for its verdict.
func (c *conn) round() (vote, error) {
	c.call.send()
	c.call.wait()
	return (*slot)(c).said()
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

// viaRedsync runs a call as redsync's round of that kind and returns what
// redsync says.
func (r *Redlock) viaRedsync(ctx context.Context, c *call, key string, ttl time.Duration) error {
	options := r.usual
	if ttl != r.cfg.TTL {
		options = mutexOptions(ttl, r.cfg.NodeTimeout)
	}
	m := r.redsync.NewMutex(key, options...)
	bound := &callContext{Context: ctx, call: c}
	if c.kind == opAcquire {
		return m.TryLockContext(bound)
	}
	limited, cancel := context.WithTimeout(bound, r.cfg.NodeTimeout)
	defer cancel()
	ok, err := m.ExtendContext(limited)
	if !ok && err == nil {
		err = redsync.ErrFailed
	}
	return err
}

// direct runs a call without redsync: the same round, the same verdict, no
// goroutines. The differential test compares the two.
func (r *Redlock) direct(ctx context.Context, c *call) error {
	return c.decide(ctx, r.cfg.NodeTimeout)
}

// decide sends the round and waits for its verdict, for at most limit.
func (c *call) decide(ctx context.Context, limit time.Duration) error {
	deadline := deadlines.Get().(*time.Timer)
	deadline.Reset(limit)
	defer func() {
		deadline.Stop()
		deadlines.Put(deadline)
	}()
	c.send()
	select {
	case <-c.decided:
	case <-deadline.C:
		c.expire()
	case <-ctx.Done():
		c.cancel()
	}
	if c.outcome() != won {
		return errUndecided
	}
	return nil
}

// deadlines are idle timers.
var deadlines = sync.Pool{New: func() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}}

// run runs an acquire or an extension to its verdict; nil means that it was
// won. A release decides nothing: it is always direct.
func (r *Redlock) run(ctx context.Context, c *call, key string, ttl time.Duration) error {
	if r.cfg.Direct {
		return r.direct(ctx, c)
	}
	return r.viaRedsync(ctx, c, key, ttl)
}
