package observe

import "time"

// BreakerChanged says that the quorum breaker changed its state: closed, open
// or half-open. The route follows it unless an operator has forced one.
type BreakerChanged struct {
	From, To string
	// Reason is one line.
	Reason string
}

// Name implements Event.
func (BreakerChanged) Name() string { return "breaker_changed" }

// CanaryProbed says how one canary of the quorum breaker ended. Canaries run
// only while the breaker is not closed.
type CanaryProbed struct {
	OK   bool
	Took time.Duration
	// Err says why it failed.
	Err error
}

// Name implements Event.
func (CanaryProbed) Name() string { return "canary_probed" }
