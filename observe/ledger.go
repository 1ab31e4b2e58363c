package observe

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
