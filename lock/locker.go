package lock

import "context"

// A Locker hands out leases. *Redlock is one; so is the engine, whose locks
// are kept in the ledger. All methods are safe for concurrent use.
type Locker interface {
	// Acquire waits until it holds the lock, or ctx ends. The lease outlives
	// ctx: only its release or the end of its validity ends it.
	Acquire(ctx context.Context, name string, opts ...Option) (Lease, error)
	// TryAcquire makes one try and does not wait for a holder.
	TryAcquire(ctx context.Context, name string, opts ...Option) (Lease, error)
}
