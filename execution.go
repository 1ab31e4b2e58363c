package redfence

import "context"

// An Execution is the handler's view of its claim. It is safe for concurrent
// use and valid until the handler has returned.
type Execution struct {
	key     Key
	fence   int64
	attempt int
	lost    chan struct{}
}

// Fence is larger for every later claim of the key. Send it along with the
// effect, so that the receiver can refuse an older one. 0 for an unprotected
// run (Policy.FailOpen).
func (x *Execution) Fence() int64 { return x.fence }

// Key returns the key that is worked on.
func (x *Execution) Key() Key { return x.key }

// Attempt counts the starts of the handler for this key, from 1.
func (x *Execution) Attempt() int { return x.attempt }

// Lost is closed when the lease could not be renewed in time. Under Retry the
// context has ended as well; under Hold it is a warning.
func (x *Execution) Lost() <-chan struct{} { return x.lost }

// Unreplayable tells the ledger, before its first byte leaves, that the
// response cannot be recorded: duplicates get ErrNotReplayable. An error means
// that nothing may leave (Retry) or that the row could not be moved (Hold: go
// on, nobody can take over).
func (x *Execution) Unreplayable(ctx context.Context, status int, reason string) error { return nil }
