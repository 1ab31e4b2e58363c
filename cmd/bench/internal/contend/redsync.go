package contend

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync is stock redsync over all nodes, as in its README.
var Redsync = LockContender{
	Name:    "redsync",
	Options: "all nodes, NewMutex(name) without options, go-redis defaults",
	Open: func(_ context.Context, s Servers) (Locker, error) {
		return newRedsync(dial(s.Redis, nil)), nil
	},
}

// RedsyncFailFast is redsync with the option that returns at the quorum.
var RedsyncFailFast = LockContender{
	Name:    "redsync-failfast",
	Options: "all nodes, WithFailFast(true), go-redis defaults",
	Open: func(_ context.Context, s Servers) (Locker, error) {
		return newRedsync(dial(s.Redis, nil), redsync.WithFailFast(true)), nil
	},
}

// RedsyncTuned is redsync with every option that helps it when nodes are sick.
var RedsyncTuned = LockContender{
	Name:    "redsync-tuned",
	Options: "all nodes, WithFailFast(true), WithTimeoutFactor(0.0125) = 100 ms, clients: MaxRetries -1, ContextTimeoutEnabled, DialTimeout and ReadTimeout 100 ms, PoolSize 128",
	Open: func(_ context.Context, s Servers) (Locker, error) {
		clients := dial(s.Redis, func(o *redis.Options) {
			o.MaxRetries, o.ContextTimeoutEnabled, o.PoolSize = -1, true, 128
			o.DialTimeout, o.ReadTimeout = 100*time.Millisecond, 100*time.Millisecond
		})
		return newRedsync(clients, redsync.WithFailFast(true), redsync.WithTimeoutFactor(0.0125)), nil
	},
}

type redsyncLocker struct {
	clients []*redis.Client
	redsync *redsync.Redsync
	options []redsync.Option
}

func newRedsync(clients []*redis.Client, options ...redsync.Option) *redsyncLocker {
	pools := make([]redsyncredis.Pool, len(clients))
	for i, c := range clients {
		pools[i] = goredis.NewPool(c)
	}
	return &redsyncLocker{clients: clients, redsync: redsync.New(pools...), options: options}
}

func (l *redsyncLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	mutex := l.redsync.NewMutex(name, l.options...)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return unlockRedsync(mutex), nil
}

func (l *redsyncLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	mutex := l.redsync.NewMutex(name, l.options...)
	err := mutex.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed) {
		return nil, false, nil
	}
	return unlockRedsync(mutex), err == nil, err
}

func unlockRedsync(mutex *redsync.Mutex) Unlock {
	return func(ctx context.Context) error {
		held, err := mutex.UnlockContext(ctx)
		if err == nil && !held {
			err = errors.New("redsync: no longer held")
		}
		return err
	}
}

func (l *redsyncLocker) Close() error { return closeAll(l.clients) }
