package lock

import (
	"context"
	"time"
)

// A Lease is a lock that is held until it is released or its validity ends.
// All methods are safe for concurrent use.
type Lease interface {
	// Name returns the name that was acquired.
	Name() string
	// Context is done when the lease ends; context.Cause tells why (ErrLost,
	// ErrNotHeld after a release).
	Context() context.Context
	// Done is the channel of Context.
	Done() <-chan struct{}
	// Fence is larger for every later lease of the name. 0: the locker hands
	// out no fences.
	Fence() int64
	// ValidUntil is the end of the last confirmed validity, on this process's
	// monotonic clock.
	ValidUntil() time.Time
	// Extend renews the lease now, by its TTL. ErrLost when it has lapsed or
	// is another's, ErrNotHeld when it was released.
	Extend(ctx context.Context) error
	// Release gives the lock back. It is idempotent and works on a context
	// that is already done.
	Release(ctx context.Context) error
}
