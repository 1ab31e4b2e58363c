package main

// A Rule is something that the protocol says and that a run can leave out.
type Rule string

// Rules marked † on the protocol page.
const (
	TokenPerAttempt    Rule = "§1 a token names one attempt, never an instance"
	ReleaseUnstarted   Rule = "§3 released as not started only if it was not started"
	OwnerEndsUnknown   Rule = "§3 the owner may complete an unknown row"
	DecisionDrawsFence Rule = "§3 a decision draws a new fence"
	NoDelete           Rule = "§3 no transition deletes a row"
	RowsPolicy         Rule = "§3 the row's policy, never the finder's"
	ExpiryFromEnd      Rule = "§3 expires_at is set on entering a terminal state"
	VerdictByCommit    Rule = "R1 a verdict only when the commit is confirmed"
	NoR4ForTx          Rule = "R4 does not apply to DoTx"
	DeadlineOfOwnSend  Rule = "R5b the deadline counts from the statement's own send"
	ReaderJudgesExpiry Rule = "R12 the reader judges expiry"
	TxNeedsItsRow      Rule = "R15 a completion that updates no row rolls back"
)

// Rules that are not marked, each of which a run shows to be needed.
const (
	JanitorReleases   Rule = "R1 a claim that never started is released by the janitor"
	JanitorIsSure     Rule = "R1 the janitor ends only when the claim can no longer be"
	CompletionFirst   Rule = "R3 completion before reply"
	StreamOpensFirst  Rule = "R3 the row is streaming before the first byte leaves"
	LapsedStreamEnds  Rule = "§3 whoever finds a stream lapsed closes it"
	CompareAndSet     Rule = "R6 compare-and-set on token and fence"
	OwnSuccess        Rule = "R8 the owner recognises its own earlier success"
	LedgersClock      Rule = "R11 lapsed is judged by the ledger's clock"
	PutAfterCommit    Rule = "R12 only committed records are cached"
	MarkersOfForget   Rule = "R12 Forget leaves a marker on each node"
	ForgetAsksAll     Rule = "R12 Forget reports done only when every node has answered"
	MarginBeforeStart Rule = "R13 a handler starts only before its deadline"
	StartsAreCounted  Rule = "R16 a claim that is given back unstarted does not reset the attempts"
	FreshFlights      Rule = "R16 a late flight takes no follower"
	DecisionWaits     Rule = "R17 a release waits for claimed_at + max_processing"
	SweepAfterGrace   Rule = "§3 the sweeper waits for old claim statements"
	NoEarlyExpiry     Rule = "§3 nothing expires before claimed_at + max_processing"
	UnknownAfterEnd   Rule = "§3 the owner says unknown only after the handler has returned"
	OwnerFreesUnknown Rule = "§3 the owner may release an unknown row"
	ForgetTerminal    Rule = "§3 Forget acts on terminal rows only"
)

// A Promise is what the protocol promises; a run that breaks one has found a
// counter-example.
type Promise string

// What §1 promises, and what follows from it.
const (
	OneStart     Promise = "a handler under Hold starts once"
	FewStarts    Promise = "a handler starts no more often than its attempts"
	NoOverlap    Promise = "no handler starts while another is within its time"
	NoHalf       Promise = "no handler starts after a first byte has left"
	FenceGrows   Promise = "fences grow"
	OneAnswer    Promise = "a durable answer does not change"
	CommittedOne Promise = "a durable answer is in the ledger"
	TxOnce       Promise = "a transaction's effect happens once, and is not reported before"
	Forgets      Promise = "a forgotten answer is not given"
	FairFollower Promise = "a follower does not get less than was durable when it joined"
	NotStuck     Promise = "a row does not wait for an owner that has let go of it"
	StreamEnds   Promise = "a stream whose owner dies ends"
)

// A Scenario says what a run explores.
type Scenario struct {
	Name                     string
	Procs                    int
	Hold, Retry              bool // policies of the claims
	Tx, Stream, Forget, Near bool
	Max                      Budget
}

// A Model is a scenario under the protocol, less the rules that are left out.
type Model struct {
	Scenario
	Without []Rule
}

// without reports whether a rule is left out.
func (m *Model) without(r Rule) bool {
	for _, out := range m.Without {
		if out == r {
			return true
		}
	}
	return false
}

// maxAttempts is every row's.
const maxAttempts = 2

// A Step is one thing that can happen.
type Step struct {
	What   string // %d is N
	N      int8
	Proc   int8 // who does it; -1: nobody in particular
	Next   World
	Broken Promise // "" if all promises hold
}

// steps collects what can happen next.
type steps struct {
	proc int8
	all  []Step
}

func (s *steps) add(next World, broken Promise, what string, n int8) {
	s.all = append(s.all, Step{What: what, N: n, Proc: s.proc, Next: next, Broken: broken})
}

// Next returns everything that can happen in a world, in the order of the
// protocol page.
func (m *Model) Next(w World) []Step { return m.next(w, nil) }

// next is Next into memory that may be used again.
func (m *Model) next(w World, into []Step) []Step {
	out := steps{all: into[:0]}
	for i := range m.Procs {
		out.proc = int8(i)
		m.replays(w, i, &out)   // R7, R12
		m.finds(w, i, &out)     // §3: lapsed rows
		m.claims(w, i, &out)    // R1
		m.janitor(w, i, &out)   // R1
		m.starts(w, i, &out)    // R13
		m.runs(w, i, &out)      // the handler's ends
		m.streams(w, i, &out)   // R3
		m.completes(w, i, &out) // R3, R4, R8
		m.commits(w, i, &out)   // R15
		m.puts(w, i, &out)      // R12
		m.joins(w, i, &out)     // R16
		m.leases(w, i, &out)    // R5
		m.breaks(w, i, &out)    // crashes, cuts
	}
	out.proc = -1
	m.lands(w, &out)   // statements without a sender
	m.time(w, &out)    // leases, processing times, retentions
	m.sweeps(w, &out)  // §3
	m.decides(w, &out) // R17
	m.forgets(w, &out) // R12
	return out.all
}
