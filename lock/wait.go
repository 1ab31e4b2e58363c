package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Acquire waits until it holds the lock, or ctx ends.
func (r *Redlock) Acquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	o, err := r.options(name, opts)
	if err != nil {
		return nil, err
	}
	for {
		h, err := r.try(ctx, name, o)
		if err == nil {
			return h, nil
		}
		if ctx.Err() != nil || errors.Is(err, ErrClosed) {
			return nil, err
		}
		timer := time.NewTimer(time.Duration(5+rand.IntN(20)) * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			var e *Error
			errors.As(err, &e)
			e.Ctx = ctx.Err()
			return nil, e
		}
	}
}
