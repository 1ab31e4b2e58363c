package observe

import "time"

// LedgerAdopted says that a ledger found its database on another timeline of
// the same Postgres system (after a fail-over) and went on there: fences from
// Fence on, take-overs at rest until the longest lease granted before has
// ended.
type LedgerAdopted struct {
	System   string
	Timeline string
	Fence    int64
}

// Name implements Event.
func (LedgerAdopted) Name() string { return "ledger_adopted" }

// LedgerSwept says what one batch of the sweeper removed, or why it could not.
type LedgerSwept struct {
	Rows int64
	Took time.Duration
	Err  error
}

// Name implements Event.
func (LedgerSwept) Name() string { return "ledger_swept" }

// LedgerSplit says that a batch of calls failed as a whole and is run again in
// parts, so that only the row that caused it is hurt.
type LedgerSplit struct {
	Calls int
	Err   error
}

// Name implements Event.
func (LedgerSplit) Name() string { return "ledger_split" }
