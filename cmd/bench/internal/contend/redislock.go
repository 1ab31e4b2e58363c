package contend

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// leaseTime is the time to live of the locks that need one: redsync's default.
const leaseTime = 8 * time.Second

// Redislock is bsm/redislock, which knows one node.
var Redislock = LockContender{
	Name:    "redislock",
	Options: "one node, Obtain with LinearBackoff(100 ms) to wait, go-redis defaults",
	Open: func(_ context.Context, s Servers) (Locker, error) {
		clients := dial(s.Redis[:1], nil)
		return &redislockLocker{clients: clients, client: redislock.New(clients[0])}, nil
	},
}

type redislockLocker struct {
	clients []*redis.Client
	client  *redislock.Client
}

func (l *redislockLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	wait := &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)}
	held, err := l.client.Obtain(ctx, name, leaseTime, wait)
	if err != nil {
		return nil, err
	}
	return held.Release, nil
}

func (l *redislockLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	held, err := l.client.Obtain(ctx, name, leaseTime, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return held.Release, true, nil
}

func (l *redislockLocker) Close() error { return closeAll(l.clients) }
