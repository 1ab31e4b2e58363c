package observe

import "time"

// DoFinished says how one call of Do ended.
type DoFinished struct {
	Key   Ref
	Route Route
	// Outcome is executed, replayed, joined, unrecorded or error.
	Outcome string
	Durable bool
	Took    time.Duration
	Err     error
}

// Name implements Event.
func (DoFinished) Name() string { return "do_finished" }

// ClaimGranted says that this process owns the claim of a key now.
type ClaimGranted struct {
	Key     Ref
	Route   Route
	Fence   int64
	Attempt int
	// TakenOver: an earlier claim had lapsed and its row said Retry.
	TakenOver bool
}

// Name implements Event.
func (ClaimGranted) Name() string { return "claim_granted" }

// ClaimLost says that an owner's own deadline passed, or that the ledger
// refused its renewal or completion: another claim may be in force.
type ClaimLost struct {
	Key   Ref
	Fence int64
	Cause string
}

// Name implements Event.
func (ClaimLost) Name() string { return "claim_lost" }

// CacheRead says whether a look-up in the response cache answered a request.
type CacheRead struct {
	Key Ref
	Hit bool
	// Reason of a miss: absent, expired, no_clock, unverified or error.
	Reason string
}

// Name implements Event.
func (CacheRead) Name() string { return "cache_read" }

// FallbackRecovered says that a completed response was found in the ledger
// after the cache had missed it, and was put back into the cache.
type FallbackRecovered struct{ Key Ref }

// Name implements Event.
func (FallbackRecovered) Name() string { return "db_fallback_recovered" }

// NotDurable says that a caller got its real response before the ledger had
// confirmed it. The background completer goes on trying.
type NotDurable struct {
	Key   Ref
	Fence int64
	Cause string
}

// Name implements Event.
func (NotDurable) Name() string { return "not_durable" }

// OutcomeUnknown says that a key entered the state unknown.
type OutcomeUnknown struct {
	Key    Ref
	Fence  int64
	Reason string
}

// Name implements Event.
func (OutcomeUnknown) Name() string { return "outcome_unknown" }

// LateCompletion says how the background completer ended with one claim:
// completed, refused or abandoned (the process is closing).
type LateCompletion struct {
	Key    Ref
	Fence  int64
	Result string
	After  time.Duration
}

// Name implements Event.
func (LateCompletion) Name() string { return "late_completion" }
