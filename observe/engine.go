package observe

import "time"

// EngineStarted says over which stores an engine works. It is sent once,
// before any other event of the engine.
type EngineStarted struct {
	// Nodes are the addresses of the Redis nodes that vote.
	Nodes []string
	// CacheNodes are those of the nodes that keep the cache, if they are not
	// Nodes.
	CacheNodes []string
	// Quorum is how many of Nodes have to agree.
	Quorum int
}

// Name implements Event.
func (EngineStarted) Name() string { return "engine_started" }

// DoFinished says how one call of Do ended.
type DoFinished struct {
	Key   Ref
	Route Route
	// Outcome is executed, replayed, joined, unrecorded or error.
	Outcome string
	// Reason of an error, in a word: in_progress, mismatch, unknown_outcome,
	// in_doubt, not_replayable, expired, ledger_unavailable, overloaded, invalid,
	// closed, canceled (the caller's context ended), handler or other. Empty
	// without an error.
	Reason  string
	Durable bool
	Took    time.Duration
	// Err is what the caller got. Its text may quote the key or come from the
	// handler.
	Err error `slog:"-"`
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

// ClaimEnded says that this process has done with a claim. It is sent once for
// every ClaimGranted, by the caller or by the background completer.
type ClaimEnded struct {
	Key   Ref
	Fence int64
	// Result is what the row is now (completed, released, unknown, tombstone,
	// closed), or refused (the ledger has granted a later claim, or somebody
	// else has decided), or left (the process stopped trying, or a COMMIT is
	// in doubt: the row is left to its lease).
	Result string
	// Held is the time since the claim was granted.
	Held time.Duration
}

// Name implements Event.
func (ClaimEnded) Name() string { return "claim_ended" }

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
	Key   Ref
	Fence int64
	// Reason is the engine's word; what follows a colon is the handler's.
	Reason string `slog:"head"`
}

// Name implements Event.
func (OutcomeUnknown) Name() string { return "outcome_unknown" }

// HandedOver says that a claim was left to the background completer: its
// outcome is not recorded yet, or it is not known whether it was granted at
// all (Fence 0). One LateCompletion follows, whatever happens.
type HandedOver struct {
	Key   Ref
	Fence int64
}

// Name implements Event.
func (HandedOver) Name() string { return "handed_over" }

// LateCompletion says how the background completer ended with one claim: what
// the row is now (completed, released, unknown, tombstone, closed), or refused,
// or abandoned (the process is closing, or too many wait).
type LateCompletion struct {
	Key    Ref
	Fence  int64
	Result string
	// After is the time since the claim was handed over.
	After time.Duration
}

// Name implements Event.
func (LateCompletion) Name() string { return "late_completion" }

// RecoveryAsked says that a recovery hook was asked about an unknown key.
type RecoveryAsked struct {
	Key   Ref
	Fence int64
	// Decided: the hook knew what had happened, and the row says so now.
	Decided bool
	// Err is the hook's.
	Err error `slog:"-"`
}

// Name implements Event.
func (RecoveryAsked) Name() string { return "recovery_asked" }

// NodeSetDiffers says that this engine was started with other Redis nodes than
// the engines of its ledger have recorded.
type NodeSetDiffers struct {
	// Own and Recorded are addresses, separated by spaces.
	Own, Recorded string
	// Since is when the other set was recorded, on the ledger's clock.
	Since time.Time
}

// Name implements Event.
func (NodeSetDiffers) Name() string { return "node_set_differs" }
