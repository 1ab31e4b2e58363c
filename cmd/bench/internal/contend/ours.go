package contend

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/lock"
)

// Unguarded is the engine's processing lock: our Redlock without restart
// guard and fences, because the ledger arbitrates.
var Unguarded = LockContender{
	Name:    "redfence-unguarded",
	Options: "a majority of the nodes first, lock.Config{Unguarded: true}",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		return openOurs(ctx, s, lock.Config{Unguarded: true})
	},
}

// Guarded is our stand-alone lock: restart guard and fences on.
var Guarded = LockContender{
	Name:    "redfence",
	Options: "all nodes, lock.Config{}: restart guard and fences",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		return openOurs(ctx, s, lock.Config{})
	},
}

// Direct is our stand-alone lock with its own count of the votes.
var Direct = LockContender{
	Name:    "redfence-direct",
	Options: "all nodes, lock.Config{Direct: true}: restart guard and fences, without redsync",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		return openOurs(ctx, s, lock.Config{Direct: true})
	},
}

type oursLocker struct {
	clients []*redis.Client
	locker  *lock.Redlock
}

// dialOurs makes clients with the options that safety depends on.
func dialOurs(addrs []string) (clients []*redis.Client, nodes []redis.UniversalClient) {
	clients = dial(addrs, func(o *redis.Options) { o.ContextTimeoutEnabled, o.MaxRetries = true, -1 })
	for _, c := range clients {
		nodes = append(nodes, c)
	}
	return clients, nodes
}

func openOurs(ctx context.Context, s Servers, cfg lock.Config) (Locker, error) {
	clients, nodes := dialOurs(s.Redis)
	locker, err := lock.New(ctx, nodes, cfg)
	if err != nil {
		return nil, errors.Join(err, closeAll(clients))
	}
	return &oursLocker{clients: clients, locker: locker}, nil
}

// Begin begins the deployment of the stand-alone lock on fresh nodes, so that
// they vote at once.
func Begin(ctx context.Context, s Servers) error {
	clients, nodes := dialOurs(s.Redis)
	return errors.Join(lock.Init(ctx, nodes), closeAll(clients))
}

func (l *oursLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	lease, err := l.locker.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (l *oursLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	lease, err := l.locker.TryAcquire(ctx, name)
	if errors.Is(err, lock.ErrTaken) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return lease.Release, true, nil
}

func (l *oursLocker) Close() error { return errors.Join(l.locker.Close(), closeAll(l.clients)) }
