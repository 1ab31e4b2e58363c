package main

import "fmt"

// A Run is a scenario under the protocol, less some rules, and what it must
// find.
type Run struct {
	ID      string
	Model   Model
	Finds   Promise // "" finds nothing
	Dagger  bool    // the rule is marked † on the protocol page
	Without Rule
}

// usual bounds a history: three claims, one of most other things.
var usual = Budget{
	Claims: 3, Crashes: 1, Cuts: 2, Losses: 1, Expiries: 1, Decisions: 1, Forced: 1, Undone: 2,
}

// less returns the budget without some of what can happen.
func (b Budget) less(none ...func(*Budget)) Budget {
	for _, n := range none {
		n(&b)
	}
	return b
}

func noCuts(b *Budget)      { b.Cuts = 0 }
func oneCut(b *Budget)      { b.Cuts = 1 }
func noExpiries(b *Budget)  { b.Expiries = 0 }
func noDecisions(b *Budget) { b.Decisions = 0 }
func noForce(b *Budget)     { b.Forced = 0 }
func noUndone(b *Budget)    { b.Undone = 0 }
func oneForget(b *Budget)   { b.Forgets = 1 }

// Scenarios in which the protocol as it stands finds nothing, and which the
// other runs take a rule from.
var (
	holdAll      = Scenario{Name: "Hold", Procs: 2, Hold: true, Max: usual}
	retryAll     = Scenario{Name: "Retry", Procs: 2, Retry: true, Max: usual.less(noDecisions)}
	mixed        = Scenario{Name: "Hold and Retry mixed", Procs: 2, Hold: true, Retry: true, Max: usual.less(noUndone, noExpiries, noForce, oneCut)}
	holdStreams  = Scenario{Name: "Hold, streaming", Procs: 2, Hold: true, Stream: true, Max: usual.less(noUndone, noForce, noExpiries)}
	retryStreams = Scenario{Name: "Retry, streaming", Procs: 2, Retry: true, Stream: true, Max: usual.less(noUndone, noDecisions)}
	forgetting   = Scenario{Name: "Hold, Forget, near caches", Procs: 2, Hold: true, Forget: true, Near: true, Max: usual.less(noCuts, noUndone, noForce, noDecisions, oneForget)}
	transactions = Scenario{Name: "DoTx", Procs: 2, Retry: true, Tx: true, Max: usual.less(noDecisions)}
	threeHold    = Scenario{Name: "Hold, three processes", Procs: 3, Hold: true, Max: usual.less(noUndone, noExpiries, noForce, noCuts)}
	threeRetry   = Scenario{Name: "Retry, three processes", Procs: 3, Retry: true, Max: usual.less(noExpiries, noDecisions, noCuts)}
	threeTx      = Scenario{Name: "DoTx, three processes", Procs: 3, Retry: true, Tx: true, Max: usual.less(noExpiries, noDecisions, noCuts)}

	// Smaller ones, for rules whose counter-example needs no more.
	attempts = Scenario{Name: "Retry, four claims", Procs: 2, Retry: true, Max: Budget{Claims: 4}}
	holdNear = Scenario{Name: "Hold, no cuts", Procs: 2, Hold: true, Max: usual.less(noCuts)}
)

// plain are the runs of the protocol as it stands: they find nothing.
func plain() (runs []Run) {
	for i, s := range []Scenario{
		holdAll, retryAll, mixed, holdStreams, retryStreams, forgetting, transactions, threeHold, threeRetry, threeTx, attempts,
	} {
		runs = append(runs, Run{ID: fmt.Sprintf("F%d", i+1), Model: Model{Scenario: s}})
	}
	return runs
}

// without lists the runs that leave one rule out. Each finds its trace.
var without = []Run{
	{ID: "D1", Without: TokenPerAttempt, Finds: OneStart, Dagger: true, Model: Model{Scenario: holdNear}},
	{ID: "D2", Without: ReleaseUnstarted, Finds: OneStart, Dagger: true, Model: Model{Scenario: holdNear}},
	{ID: "D3", Without: OwnerEndsUnknown, Finds: NotStuck, Dagger: true, Model: Model{Scenario: holdAll}},
	{ID: "D4", Without: DecisionDrawsFence, Finds: CommittedOne, Dagger: true, Model: Model{Scenario: holdAll}},
	{ID: "D5", Without: NoDelete, Finds: FenceGrows, Dagger: true, Model: Model{Scenario: holdNear}},
	{ID: "D6", Without: RowsPolicy, Finds: OneStart, Dagger: true, Model: Model{Scenario: mixed}},
	{ID: "D7", Without: ExpiryFromEnd, Finds: NoOverlap, Dagger: true, Model: Model{Scenario: holdNear}},
	{ID: "D8", Without: VerdictByCommit, Finds: OneStart, Dagger: true, Model: Model{Scenario: holdNear}},
	{ID: "D9", Without: NoR4ForTx, Finds: TxOnce, Dagger: true, Model: Model{Scenario: transactions}},
	{ID: "D10", Without: DeadlineOfOwnSend, Finds: NoOverlap, Dagger: true, Model: Model{Scenario: retryAll}},
	{ID: "D11", Without: ReaderJudgesExpiry, Finds: OneAnswer, Dagger: true, Model: Model{Scenario: holdNear}},
	{ID: "D12", Without: TxNeedsItsRow, Finds: TxOnce, Dagger: true, Model: Model{Scenario: transactions}},

	{ID: "U1", Without: JanitorReleases, Finds: NotStuck, Model: Model{Scenario: holdNear}},
	{ID: "U2", Without: JanitorIsSure, Finds: NotStuck, Model: Model{Scenario: holdAll}},
	{ID: "U3", Without: CompletionFirst, Finds: CommittedOne, Model: Model{Scenario: holdAll}},
	{ID: "U4", Without: StreamOpensFirst, Finds: NoHalf, Model: Model{Scenario: retryStreams}},
	{ID: "U5", Without: LapsedStreamEnds, Finds: StreamEnds, Model: Model{Scenario: holdStreams}},
	{ID: "U6", Without: CompareAndSet, Finds: NoOverlap, Model: Model{Scenario: retryAll}},
	{ID: "U7", Without: OwnSuccess, Finds: NotStuck, Model: Model{Scenario: holdAll}},
	{ID: "U8", Without: LedgersClock, Finds: NoOverlap, Model: Model{Scenario: retryAll}},
	{ID: "U9", Without: PutAfterCommit, Finds: CommittedOne, Model: Model{Scenario: holdAll}},
	{ID: "U10", Without: MarkersOfForget, Finds: Forgets, Model: Model{Scenario: forgetting}},
	{ID: "U11", Without: ForgetAsksAll, Finds: Forgets, Model: Model{Scenario: forgetting}},
	{ID: "U12", Without: MarginBeforeStart, Finds: NoOverlap, Model: Model{Scenario: retryAll}},
	{ID: "U13", Without: FreshFlights, Finds: FairFollower, Model: Model{Scenario: retryAll}},
	{ID: "U14", Without: DecisionWaits, Finds: NoOverlap, Model: Model{Scenario: holdAll}},
	{ID: "U15", Without: SweepAfterGrace, Finds: FenceGrows, Model: Model{Scenario: holdNear}},
	{ID: "U16", Without: NoEarlyExpiry, Finds: NoOverlap, Model: Model{Scenario: holdAll}},
	{ID: "U17", Without: UnknownAfterEnd, Finds: FairFollower, Model: Model{Scenario: holdAll}},
	{ID: "U18", Without: OwnerFreesUnknown, Finds: NotStuck, Model: Model{Scenario: holdNear}},
	{ID: "U19", Without: ForgetTerminal, Finds: NoOverlap, Model: Model{Scenario: forgetting}},
	{ID: "U20", Without: StartsAreCounted, Finds: FewStarts, Model: Model{Scenario: attempts}},
}

// Runs returns every run.
func Runs() []Run {
	runs := plain()
	for _, r := range without {
		r.Model.Without = []Rule{r.Without}
		runs = append(runs, r)
	}
	return runs
}
