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

type oursLocker struct {
	clients []redis.UniversalClient
	locker  *lock.Redlock
}

func openOurs(ctx context.Context, s Servers, cfg lock.Config) (Locker, error) {
	clients, err := lock.Dial(s.Redis...)
	if err != nil {
		return nil, err
	}
	locker, err := lock.New(ctx, clients, cfg)
	if err != nil {
		return nil, errors.Join(err, closeAll(clients))
	}
	return &oursLocker{clients: clients, locker: locker}, nil
}

// Begin begins the deployment of the stand-alone lock on fresh nodes, so that
// they vote at once.
func Begin(ctx context.Context, s Servers) error {
	clients, err := lock.Dial(s.Redis...)
	if err != nil {
		return err
	}
	return errors.Join(lock.Init(ctx, clients), closeAll(clients))
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
