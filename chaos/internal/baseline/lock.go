package baseline

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/redfence/redfence/internal/failpoint"
)

// LockPattern matches the names of the locks on a node.
const LockPattern = "lock:*"

// locks are stock redsync over all nodes.
type locks struct {
	redsync *redsync.Redsync
	lease   time.Duration
}

func newLocks(c Config) *locks {
	pools := make([]redsyncredis.Pool, len(c.Nodes))
	for i, node := range c.Nodes {
		pools[i] = goredis.NewPool(node)
	}
	return &locks{redsync: redsync.New(pools...), lease: c.Lease}
}

// try takes the lock of a key, once. errTaken: somebody else has it; another
// error: no quorum.
func (l *locks) try(ctx context.Context, key string) (*redsync.Mutex, error) {
	if err := failpoint.Hit(ctx, "before-lock"); err != nil {
		return nil, err
	}
	mutex := l.redsync.NewMutex("lock:"+key, redsync.WithExpiry(l.lease))
	err := mutex.TryLockContext(ctx)
	if hit := failpoint.Hit(ctx, "after-lock"); hit != nil {
		return nil, hit
	}
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, errTaken
	}
	return mutex, err
}

// unlock gives a lock back.
func unlock(ctx context.Context, mutex *redsync.Mutex) {
	if failpoint.Hit(ctx, "before-unlock") == nil {
		_, _ = mutex.UnlockContext(ctx) // it lapses if that fails
	}
}

// extend keeps a lock alive until the function returned is called.
func (l *locks) extend(ctx context.Context, mutex *redsync.Mutex) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(l.lease / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = mutex.ExtendContext(ctx) // the next one may succeed
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// stock is redsync as in its README, around the handler, with the response in
// Redis.
type stock struct {
	locks     *locks
	responses responses
}

func (s *stock) do(ctx context.Context, key string, run runner) (r *response, replayed bool, err error) {
	if r, ok := s.responses.look(ctx, key); ok {
		return r, true, nil
	}
	mutex, err := s.locks.try(ctx, key)
	if err != nil {
		return nil, false, err
	}
	defer unlock(ctx, mutex)
	if r, ok := s.responses.look(ctx, key); ok {
		return r, true, nil
	}
	r = run(ctx, primary)
	if r.ok() {
		keep(ctx, func() error { return s.responses.put(ctx, key, r) })
	}
	return r, false, nil
}

// keep stores a response. The handler has run, so its client gets the response
// whether that succeeds or not.
func keep(ctx context.Context, store func() error) {
	if failpoint.Hit(ctx, "before-complete") != nil {
		return
	}
	_ = store()
	_ = failpoint.Hit(ctx, "after-complete")
}
