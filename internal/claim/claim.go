// Package claim is the life of one claim as a pure step function: a state and
// an event give the next state and the actions to take. It has no goroutine,
// no clock and no store; the engine drives it, and so do the property tests.
//
// The rules that it keeps are those of docs/PROTOCOL.md: a handler starts at
// most once per claim and only with time left (R13), a claim is released as
// not started only if it has not (the one-way flag of §3), nothing is answered
// as durable before the ledger has confirmed it (R3), a completion that fails
// goes on in the background (R4), and nothing but the ledger's own answers
// moves the owner's deadline (R5).
package claim

import "time"

// Phase is where the claim is in its life.
type Phase uint8

// The phases, in the order in which a claim goes through them.
const (
	Fresh    Phase = iota // nothing was sent
	Claiming              // the claim was sent, its verdict is awaited
	Doubtful              // the verdict was lost; the row is re-read by token
	Orphan                // given up while doubtful; re-read until it is certain
	Held                  // the claim is ours, the handler has not started
	Running               // the handler has started
	Settling              // the outcome is on its way to the ledger
	Late                  // the same, after the caller was answered as not durable
	Over                  // nothing is left to do
)

var phaseNames = [...]string{"fresh", "claiming", "doubtful", "orphan", "held", "running", "settling", "late", "over"}

// String returns the phase's name.
func (p Phase) String() string { return phaseNames[p] }

// Outcome is what the ledger is to record.
type Outcome uint8

// The outcomes of a claim.
const (
	None     Outcome = iota
	Complete         // a response
	Release          // nothing happened, or nothing was started
	Abandon          // nobody knows: the row becomes unknown
	Bury             // a response that cannot be replayed: a tombstone
	Close            // the same if the row says that it streams, else nothing
)

var outcomeNames = [...]string{"none", "completed", "released", "unknown", "tombstone", "closed"}

// String returns what the row is after the outcome was recorded.
func (o Outcome) String() string { return outcomeNames[o] }

// Kind is what happened.
type Kind uint8

// The kinds of events; the fields of Event that each uses are in brackets.
const (
	Begin        Kind = iota + 1
	Granted           // the ledger granted the claim, or a re-read shows it as ours [Grant]
	Denied            // another claim or a recorded response stands in the way
	Rejected          // the claim has definitely not been made
	Unconfirmed       // the claim was sent, its verdict is not known
	Unclear           // a re-read failed, or came too early to be certain
	NotOurs           // a re-read sent after the claim's not-after shows that the row is not under its token
	GiveUp            // the caller will not wait for certainty
	Start             // the handler may start [Now, CallerGone]
	Streamed          // the row says that an unrecordable response leaves [Grant]
	NotStreamed       // whether the row says so is not known
	Returned          // the handler has returned or panicked [Outcome]
	Left              // a transaction's COMMIT is in doubt: the row will tell (R15)
	Renewed           // the ledger renewed the lease [Grant]
	RenewRefused      // the ledger refused to: the row is not processing under this claim
	Tick              // a timer fired [Now]
	Confirmed         // the ledger recorded the outcome
	Refused           // the ledger refused it: terminal
	Failed            // the ledger could not be asked, or its answer was lost
	Closing           // the process will not go on trying
)

// A Grant is the ledger's word on the lease.
type Grant struct {
	Fence    int64
	Attempt  int
	Deadline time.Time // the owner's own deadline (R5)
	Cap      time.Time // claimed_at + max_processing on the owner's clock
}

// An Event is something that happened to the claim.
type Event struct {
	Kind       Kind
	Now        time.Time
	Grant      Grant
	Outcome    Outcome
	CallerGone bool
}

// Action is a set of things to do now. Calls (SendClaim, Reread, SendOutcome)
// are answered by a further event; a step asks for at most one of them.
type Action uint32

// The actions.
const (
	SendClaim   Action = 1 << iota
	Reread             // read the row and look for the token
	StartRun           // start the handler, now
	SendOutcome        // record State.Outcome
	Watch              // start the renewals, and the timer of NextTick
	Unwatch            // stop the renewals
	WarnLost           // close the channel of Execution.Lost
	CancelLost         // cancel the handler: the claim may be another's
	CancelMax          // cancel the handler: its time is over
	HandOver           // go on in the background; the caller does not wait
	Durable            // answer: the response is recorded
	NotDurable         // answer: the response, marked as not durable
	Settled            // answer: the handler's error; the row says what it means
	Fail               // answer: nothing was started
	Look               // the row decides: look at it again
	Put                // put the response into the cache
)

// Has reports whether all of b are in a.
func (a Action) Has(b Action) bool { return a&b == b }

// Terms is the part of the policy that the step function needs.
type Terms struct {
	Retry        bool          // OnAbandoned is Retry
	CancelOnLost bool          // under Hold
	Margin       time.Duration // that the deadline must leave for a start (R13)
}

// State is all that the life of a claim depends on.
type State struct {
	Terms
	Phase   Phase
	Grant   Grant
	Outcome Outcome
	Started bool // one way: set before the handler is called, never cleared
	Lost    bool // the deadline has passed, or the ledger refused a renewal
	Capped  bool // MaxProcessing has passed
	Streams bool // the first byte of an unrecordable response may have left
	Forgone bool // it may not: nothing has left, and the row may be taken over
}

// NextTick returns when the owner's timer must fire: at the deadline, or at
// the end of MaxProcessing if that is earlier; zero when neither is to come.
func (s State) NextTick() time.Time {
	switch {
	case s.Capped:
		return time.Time{}
	case s.Lost, s.Grant.Cap.Before(s.Grant.Deadline):
		return s.Grant.Cap
	}
	return s.Grant.Deadline
}

// Joinable reports whether a duplicate in the same process may wait for this
// claim's verdict (R16).
func (s State) Joinable(now time.Time) bool {
	switch s.Phase {
	case Fresh, Claiming, Held:
		return true
	case Running, Settling:
		return !s.Lost && !s.Capped && now.Before(s.NextTick())
	}
	return false
}
