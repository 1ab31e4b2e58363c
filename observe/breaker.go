package observe

import "time"

// CanaryProbed says how one canary of the quorum breaker ended. Canaries run
// only while the breaker is not closed.
type CanaryProbed struct {
	OK   bool
	Took time.Duration
	Err  error
}

// Name implements Event.
func (CanaryProbed) Name() string { return "canary_probed" }
