package lock

import (
	"context"
	"errors"
)

// Do acquires name from any locker, waiting for it, runs fn with the lease's
// context and releases. It returns what fn returns; when the lease was lost
// before fn had returned, the result also matches ErrLost. The context that fn
// gets ends with the lease and with ctx.
func Do(ctx context.Context, locker Locker, name string, fn func(ctx context.Context) error, opts ...Option) error {
	lease, err := locker.Acquire(ctx, name, opts...)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(ctx) }() // also when fn panics; idempotent
	inner, cancel := context.WithCancelCause(lease.Context())
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer stop()
	err = fn(inner)
	if lost := lease.Release(ctx); errors.Is(lost, ErrLost) {
		return errors.Join(err, lost)
	}
	return err
}
