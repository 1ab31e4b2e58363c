package contend

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Rueidislock is rueidis' lock on one node, as in its README.
var Rueidislock = LockContender{
	Name:    "rueidislock",
	Options: "one node, KeyMajority 1, NoLoopTracking; a wait of a second is given up and begun again",
	Open: func(_ context.Context, s Servers) (Locker, error) {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: s.Redis[:1]},
			KeyMajority:    1,
			NoLoopTracking: true,
		})
		return rueidisLocker{locker}, err
	},
}

type rueidisLocker struct{ locker rueidislock.Locker }

// longestWait bounds one wait of rueidislock. A try that times out (after
// 20 ms) leaves it waiting for a message that never comes when nobody holds
// the lock.
const longestWait = time.Second

func (l rueidisLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	for {
		unlock, err := l.lockOnce(ctx, name)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.Canceled) {
			return unlock, err
		}
	}
}

// lockOnce gives up after longestWait. The lock lives as long as its context,
// so that may not have a deadline.
func (l rueidisLocker) lockOnce(ctx context.Context, name string) (Unlock, error) {
	ctx, giveUp := context.WithCancel(ctx)
	patience := time.AfterFunc(longestWait, giveUp)
	held, cancel, err := l.locker.WithContext(ctx, name)
	patience.Stop()
	if err != nil {
		giveUp()
		return nil, err
	}
	return unlockRueidis(held, func() { cancel(); giveUp() }), nil
}

func (l rueidisLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	held, cancel, err := l.locker.TryWithContext(ctx, name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return unlockRueidis(held, cancel), true, nil
}

func unlockRueidis(held context.Context, cancel context.CancelFunc) Unlock {
	return func(context.Context) error {
		err := held.Err()
		cancel()
		if err != nil {
			return errors.New("rueidislock: no longer held")
		}
		return nil
	}
}

func (l rueidisLocker) Close() error { l.locker.Close(); return nil }
