package observe

import "time"

// NodeDown says that this process stopped sending to a Redis node.
type NodeDown struct {
	Node  string
	Cause string
}

// Name implements Event.
func (NodeDown) Name() string { return "node_down" }

// NodeUp says that a Redis node answers this process again.
type NodeUp struct {
	Node string
	// After is how long it was down.
	After time.Duration
}

// Name implements Event.
func (NodeUp) Name() string { return "node_up" }

// NodeRejoined says that a Redis node that had lost its memory votes again.
type NodeRejoined struct{ Node string }

// Name implements Event.
func (NodeRejoined) Name() string { return "node_rejoined" }

// LockBroken says that a lock was taken away from its holder by force.
type LockBroken struct {
	Lock Ref
	// Owner and Fence were the holder's.
	Owner string
	Fence int64
	// By is who did it, as the caller of Break gave it.
	By string
	// Confirmed: a majority of the nodes has removed it.
	Confirmed bool
}

// Name implements Event.
func (LockBroken) Name() string { return "lock_broken" }

// LockRefused says that a call gave up or was told that it cannot have a lock.
type LockRefused struct {
	Lock Ref
	// Reason is canceled (the caller's context ended), taken, no_quorum,
	// too_late, overloaded, closed or other.
	Reason string
	// Took is the time from the call to its end, waiting included.
	Took time.Duration
}

// Name implements Event.
func (LockRefused) Name() string { return "lock_refused" }

// LockAcquired says that this process holds a lock now.
type LockAcquired struct {
	Lock  Ref
	Fence int64
	// Took is the time from the call to the lease, waiting included.
	Took time.Duration
}

// Name implements Event.
func (LockAcquired) Name() string { return "lock_acquired" }

// LockReleased says that a holder gave its lock back.
type LockReleased struct {
	Lock  Ref
	Fence int64
	// Held is the time since the lock was acquired.
	Held time.Duration
}

// Name implements Event.
func (LockReleased) Name() string { return "lock_released" }

// LockLost says that a lease ended without being released.
type LockLost struct {
	Lock  Ref
	Fence int64
	// Held is the time since the lock was acquired.
	Held time.Duration
}

// Name implements Event.
func (LockLost) Name() string { return "lock_lost" }

// NodeWarning says that a Redis node is set up in a way that endangers locks.
type NodeWarning struct {
	Node string
	// Problem and Fix are one line each.
	Problem string
	Fix     string
}

// Name implements Event.
func (NodeWarning) Name() string { return "node_warning" }
