package main

// A World is everything that matters at one moment: one key's row in the
// ledger, two cache nodes, the processes, the statements that are on their
// way, and what has been promised so far. It is a value: two equal worlds are
// the same world, and each is explored once.
//
// Fences, tokens and responses are numbers of one sequence. A response has the
// number of the claim (or of the decision) that made it; a claim's token is
// the number that its statement drew for the insert branch, so that it is
// unique for each attempt.
type World struct {
	Row   Row
	Cache [2]Node
	Procs [maxProcs]Proc
	Next  int8 // the next number of the sequence

	Expired   set // responses whose retention is over
	Committed set // responses that the ledger has held
	Erasing   set // forgotten, and near caches may still hold them
	Erased    set // forgotten more than 30 s ago

	Durable   int8 // the response answered as durable, in its retention
	LastGrant int8 // the largest fence that was granted

	// Since the key was last free to begin anew.
	FirstHold int8 // smallest fence under Hold that was started
	LastStart int8 // largest fence that was started
	Starts    int8 // how often the handler was started
	FirstByte bool // of an unrecordable response has left
	Effects   int8 // committed by DoTx

	Late Flight // a completion or COMMIT whose sender has died or given up
	Used Budget
}

// maxProcs bounds the processes of a scenario.
const maxProcs = 3

// State is a row's state.
type State int8

// The states of protocol §3.
const (
	Absent State = iota
	Processing
	Completed
	Unknown
	Released
	Streaming
	Tombstone
)

// A Row is the key's row. Its times are what has passed.
type Row struct {
	State    State
	Fence    int8
	Token    int8
	Response int8
	Attempts int8
	Claim    int8 // fence of the last claim: a decision moves Fence on
	Hold     bool // the claimer's policy, else Retry
	Lapsed   bool // lease_until
	Over     bool // claimed_at + max_processing + margin
	Unbegun  bool // released, and the handler never started
}

// A Node is one cache node: a response, and the fence that Forget left.
type Node struct{ Response, Marker int8 }

// Phase is what a process is doing for its present request.
type Phase int8

// The phases, in the order in which a request goes through them.
const (
	Idle     Phase = iota
	Sent           // a claim is on its way
	Lost           // its answer is lost: only the token is known
	Claimed        // the claim is confirmed
	Cleared        // R13 passed; the process may be paused here
	Belated        // R13 left out, and the deadline is over
	Running        // the handler runs
	Flowing        // the first byte of an unrecordable response has left
	Returned       // the handler has returned
	Detached       // R4: answered as not durable, the completer is at work
	Flowed         // the stream has ended
	TxLost         // DoTx: COMMIT sent, its answer lost
)

// A Proc is one process. Several of its fields outlive its request.
type Proc struct {
	Phase        Phase
	Fence, Token int8
	Hold         bool
	Current      bool // its claim belongs to what runs now
	Deadline     bool // its own deadline has passed (R5)
	Over         bool // MaxProcessing has passed
	Reread       bool // it learnt of the claim by a re-read that counts anew
	Follower     int8 // a duplicate has joined; that response was durable then

	Claim   Flight // a claim statement on its way; it may outlive its sender
	Aged    bool   // it was on its way when the row became free
	Orphan  bool   // its sender has crashed
	ForHold bool   // its policy

	Janitor int8 // a token that the janitor looks after
	Near    int8 // near cache
	Put     int8 // a cache put that is not sent yet, for any time
	Cut     bool // off the ledger
}

// A Flight is a statement on its way.
type Flight struct{ Fence, Token int8 }

// A Budget counts, or bounds, what happens in one history.
type Budget struct {
	Claims, Crashes, Cuts, Losses, Expiries, Decisions, Forced, Forgets, Undone int8
}

// A set holds numbers of the sequence.
type set uint32

func (s set) has(n int8) bool { return s&(1<<uint(n)) != 0 }
func (s *set) add(n int8)     { *s |= 1 << uint(n) }

// draw takes the next number of the sequence.
func (w *World) draw() int8 {
	w.Next++
	return w.Next - 1
}

// mine: R6, token and fence agree.
func (m *Model) mine(w *World, p *Proc) bool {
	switch {
	case m.without(CompareAndSet):
		return true
	case m.without(TokenPerAttempt):
		return w.Row.Token == p.Token
	}
	return w.Row.Token == p.Token && w.Row.Fence == p.Fence
}

// waiting: the row waits for this claim's owner, who alone knows the truth.
func waiting(w *World, p *Proc) bool {
	return w.Row.Token == p.Token && w.Row.Fence == p.Fence &&
		(w.Row.State == Processing || w.Row.State == Unknown)
}

// open: the states that an owner may end.
func open(w *World) bool { return w.Row.State == Processing || w.Row.State == Unknown }

// terminal: the states that have expires_at.
func terminal(w *World) bool { return w.Row.State == Completed || w.Row.State == Tombstone }

// done ends the request of a process; what outlives it stays.
func (p *Proc) done() {
	*p = Proc{
		Claim: p.Claim, Aged: p.Aged, Orphan: p.Orphan, ForHold: p.ForHold,
		Janitor: p.Janitor, Near: p.Near, Put: p.Put, Cut: p.Cut,
	}
}

// release makes the row claimable. unbegun: the handler never started.
func (m *Model) release(w *World, fence, token int8, unbegun bool) {
	attempts := int8(0)
	if unbegun && !m.without(StartsAreCounted) {
		attempts = w.Row.Attempts - 1
	}
	w.Row = Row{State: Released, Fence: fence, Token: token, Claim: w.Row.Claim, Attempts: attempts, Unbegun: unbegun}
	if m.without(NoDelete) {
		w.Row = Row{}
	}
	w.age()
}

// age: the row has become free, and claims that are on their way now are older
// than that.
func (w *World) age() {
	for i := range w.Procs {
		if w.Procs[i].Claim != (Flight{}) {
			w.Procs[i].Aged = true
		}
	}
}
