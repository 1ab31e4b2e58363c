package contend

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// Rueidislock is rueidis' lock on one node, as in its README.
var Rueidislock = LockContender{
	Name:    "rueidislock",
	Options: "one node, KeyMajority 1, NoLoopTracking",
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

func (l rueidisLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	held, cancel, err := l.locker.WithContext(ctx, name)
	if err != nil {
		return nil, err
	}
	return unlockRueidis(held, cancel), nil
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
