package fallback

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"os"
	"time"

	"github.com/redfence/redfence/internal/failpoint"
)

// A Key names one piece of work. Namespace separates executions from locks,
// Scope is the authenticated tenant or user, ID is what the client sent. Scope
// and ID are opaque bytes: nothing folds, trims or normalises them.
type Key struct{ Namespace, Scope, ID string }

// A Digest is the fixed-size form of a Key that the stores see.
type Digest [32]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// Digest returns SHA-256 over the length-prefixed parts of the key. The
// encoding is frozen: each part is its length as eight bytes, big endian,
// then its bytes.
func (k Key) Digest() Digest {
	if failpoint.Mutant("scope-left-out") {
		k.Scope = ""
	}
	b := make([]byte, 0, 3*8+len(k.Namespace)+len(k.Scope)+len(k.ID))
	for _, part := range [...]string{k.Namespace, k.Scope, k.ID} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// A Token names one attempt at one claim: 128 random bits, never reused,
// never derived from an instance or a request.
type Token [16]byte

// NewToken draws a token.
func NewToken() Token {
	var t Token
	rand.Read(t[:]) // never fails: crypto/rand crashes the program instead
	if failpoint.Mutant("token-is-instance") {
		t = Token{15: byte(os.Getpid()), 14: byte(os.Getpid() >> 8)}
	}
	return t
}

// A Ref names one claim: "mine" means this token and this fence.
type Ref struct {
	Digest Digest
	Token  Token
	Fence  int64
}

// State is the state of a row. States and record versions that a binary does
// not know are in doubt: never claimable, never deleted.
type State uint8

const (
	// Absent is the zero State: there is no row.
	Absent State = iota
	// Processing rows have an owner whose lease may be in force.
	Processing
	// Completed rows hold a response.
	Completed
	// Unknown rows had a handler that started and whose outcome nobody
	// recorded. They wait for their owner, a recovery hook or an operator.
	Unknown
	// Released rows are claimable.
	Released
	// Streaming rows belong to a handler whose unrecordable response is
	// leaving.
	Streaming
	// Tombstone rows are terminal without a response that can be replayed.
	Tombstone
)

var stateNames = [...]string{"absent", "processing", "completed", "unknown", "released", "streaming", "tombstone"}

// String returns the state's name, as stored.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "in doubt"
}

// Known reports whether this binary knows the state.
func (s State) Known() bool { return int(s) < len(stateNames) }

// Takeover says what happens to a claim whose owner is gone.
type Takeover uint8

const (
	// Hold: nothing takes a lapsed claim over; the key becomes unknown until
	// its owner, a recovery hook or an operator decides. At most once.
	Hold Takeover = iota
	// Retry: a later request runs the handler again once the lease has
	// lapsed. At least once.
	Retry
)

// String returns hold or retry.
func (t Takeover) String() string {
	if t == Retry {
		return "retry"
	}
	return "hold"
}

// AfterExpiry says what happens to a terminal row when its retention is over.
type AfterExpiry uint8

const (
	// RunAgain: the row is claimable.
	RunAgain AfterExpiry = iota
	// NeverAgain: the key, its fence and its state are kept for ever.
	NeverAgain
)

// Margin is added to claimed_at + max_processing wherever that moment frees a
// key for somebody else: the time that a handler has to notice its deadline.
const Margin = time.Second

// Forgotten is the reason of a row whose response was erased.
const Forgotten = "forgotten"

// RecordVersion is the record version that this binary writes, and the newest
// that it understands.
const RecordVersion = 1

// Forever is the retention that never ends.
const Forever time.Duration = math.MaxInt64

// A Policy is the part of the claimer's policy that the row carries. A lapsed
// claim is treated by its row's policy, never by the finder's.
type Policy struct {
	// Takeover says what happens to the claim when its owner is gone.
	Takeover Takeover
	// Lease is how long the claim stays in force without renewal; at least
	// 1 ms.
	Lease time.Duration
	// MaxProcessing is how long the handler may run; at least Lease.
	MaxProcessing time.Duration
	// MaxAttempts bounds the starts under Retry; at least 1.
	MaxAttempts int
	// Retention is how long a terminal row is kept from its completion, or
	// Forever.
	Retention time.Duration
	// AfterExpiry says what happens then.
	AfterExpiry AfterExpiry
}

// A Fingerprint tells two requests with one key apart. Version is the
// algorithm, Secret the id of the secret it is keyed with (0: none).
type Fingerprint struct {
	Version uint8
	Secret  uint8
	Sum     []byte
}

// A ClaimRequest asks for the right to run the handler for one key.
type ClaimRequest struct {
	Key         Key
	Digest      Digest
	Token       Token
	Owner       string // for people: host, process
	Fingerprint Fingerprint
	Policy      Policy
}

// A Grant is what the ledger says of a lease in force.
type Grant struct {
	Fence   int64
	Attempt int
	// Deadline is the owner's own deadline on this process's monotonic clock:
	// the send time of the statement that returned the grant, plus what was
	// left of the lease on the ledger's clock, less drift (1 % + 2 ms).
	Deadline time.Time
	// Cap is the same for claimed_at + max_processing.
	Cap time.Time
}

// A Verdict is the ledger's answer to a claim. Exactly one of Granted and Row
// is set: the claim is ours, or the row is what stands in the way.
type Verdict struct {
	Granted *Grant
	Row     *Record
}

// A Record is one row as the ledger's clock saw it.
type Record struct {
	Key         Key
	Digest      Digest
	State       State
	Fence       int64
	Token       Token
	Owner       string
	Fingerprint Fingerprint
	Policy      Policy
	Attempts    int
	ClaimedAt   time.Time
	LeaseUntil  time.Time
	CompletedAt time.Time // zero before
	ReleasedAt  time.Time // zero before
	ExpiresAt   time.Time // zero: never, or not terminal
	// RecoverUntil is until when a recovery hook has the row to itself; zero
	// when none ever had.
	RecoverUntil time.Time
	Status       int
	Size         int64  // of a response that could not be kept
	Response     []byte // one encoded payload
	Reason       string
	Version      int // of the record
	// Now is the ledger's clock in the statement that read the row.
	Now time.Time
	// Grant is set on a re-read when the row is processing: the deadline
	// that the reader may rely on if the token and fence are its own.
	Grant *Grant
}

// Lapsed reports whether the lease had lapsed on the ledger's clock when the
// row was read.
func (r *Record) Lapsed() bool { return !r.Now.Before(r.LeaseUntil) }

// Expired reports whether the retention was over on the ledger's clock when
// the row was read.
func (r *Record) Expired() bool { return !r.ExpiresAt.IsZero() && !r.Now.Before(r.ExpiresAt) }

// A Completion is a response to record under a claim.
type Completion struct {
	Ref
	Status int
	// Response must not change any more: the ledger may still send it when
	// Complete has returned because its context is done, and the record that
	// Complete returns may share it.
	Response []byte
	Reason   string
}

// A Burial is the end of a claim whose response cannot be replayed.
type Burial struct {
	Ref
	Status int
	Size   int64 // bytes that the response had, as far as known
	Reason string
}

// A Decision is what a recovery hook or an operator says of an unknown row.
type Decision struct {
	Digest Digest
	// Fence of the unknown row that the decision was made for.
	Fence int64
	// State is Completed or Released.
	State    State
	Status   int
	Response []byte
	// Force releases before claimed_at + max_processing + margin.
	Force bool
	// Who and Why are recorded.
	Who, Why string
}

// Ledger is the arbiter of claims and the durable record of responses. Every
// method is one statement (or a share of one batch) whose effect is durable
// before it returns nil. All are safe for concurrent use, and all but Claim
// and TakeOver are safe to send twice.
//
// Errors: ErrRefused when a compare-and-set found another claim, a state it
// may not leave, or no row; ErrUnavailable when the store cannot be reached;
// ErrOverloaded when this process's own queue or pool is full; ErrBusy when
// another session holds the row; ErrUnconfirmed (as *UnconfirmedError) when a
// claim was sent and its verdict is not known.
type Ledger interface {
	// Claim inserts the row, or claims one that is released, or terminal and
	// expired. The context counts until the statement is queued; from then on
	// it goes on detached.
	Claim(ctx context.Context, req ClaimRequest) (Verdict, error)
	// TakeOver claims a row that is processing, lapsed, Retry, with attempts
	// left, under the given fence and with the fingerprint of req.
	TakeOver(ctx context.Context, req ClaimRequest, fence int64) (Verdict, error)
	// Read returns the row; State Absent when there is none.
	Read(ctx context.Context, d Digest) (Record, error)
	// Confirm returns the row as Read does, once everything that it shows is
	// durable and no claim that this process has in doubt can change it any
	// more unseen: it waits for the transactions of those claims and of whoever
	// holds the row, and commits durably after them. Whoever takes a verdict
	// from a row (it is under my token; it is completed, as I asked) takes it
	// from this one: a row can be seen before it is durable. When its Now is
	// after the not-after of a claim in doubt, what it shows of that claim is
	// final. ErrBusy when one of those transactions does not end.
	Confirm(ctx context.Context, d Digest) (Record, error)
	// Renew moves the lease of a processing (or streaming) row. Under Retry a
	// lapsed lease is renewed only with late set (the background completer).
	Renew(ctx context.Context, ref Ref, late bool) (Grant, error)
	// Complete records the response: processing or unknown to completed.
	// When the row is already completed under this token and fence, it is
	// returned, and its response is the one to reply with.
	Complete(ctx context.Context, c Completion) (Record, error)
	// Release ends a claim whose handler was started and left nothing behind:
	// processing or unknown to released. The next claim is the first attempt.
	Release(ctx context.Context, ref Ref, reason string) error
	// GiveBack ends a claim whose handler was not started: processing or
	// unknown to released. The claim does not count: the next one is the same
	// attempt again, so that what MaxAttempts bounds are starts.
	GiveBack(ctx context.Context, ref Ref, reason string) error
	// Abandon is the owner's: processing to unknown, after the handler has
	// returned.
	Abandon(ctx context.Context, ref Ref, reason string) error
	// Lapse is the finder's: processing and lapsed, Hold or no attempts left,
	// to unknown, under the given fence. It returns the row as it is then.
	Lapse(ctx context.Context, d Digest, fence int64) (Record, error)
	// Decide is the operator's: unknown to completed or released, under a
	// new fence.
	Decide(ctx context.Context, dec Decision) (Record, error)
	// Stream is the owner's, before the first byte of a response that cannot
	// be recorded leaves: processing or unknown to streaming, the lease
	// renewed. A streaming row is never claimable.
	Stream(ctx context.Context, ref Ref) (Grant, error)
	// Bury is the owner's: processing, unknown or streaming to tombstone.
	// When the row already is a tombstone under this token and fence, it is
	// returned.
	Bury(ctx context.Context, b Burial) (Record, error)
	// BeginRecovery gives one caller the right to ask the recovery hook about
	// an unknown row for a term: the row must be unknown under the given
	// fence, claimed_at + max_processing + Margin must have passed, and no
	// other caller's term may be running. ErrRefused otherwise.
	BeginRecovery(ctx context.Context, d Digest, fence int64, term time.Duration) (Record, error)
	// Forget is the operator's: completed or tombstone to a tombstone with
	// the reason "forgotten" and no body, under a new fence; expires_at is
	// kept. ErrRefused on every other state.
	Forget(ctx context.Context, d Digest, who, why string) (Record, error)
	// Clock returns this process's estimate of the ledger's clock, from the
	// last statement that returned it, and how far it may be off; ok is false
	// when there is no estimate. It sends nothing.
	Clock() (now time.Time, margin time.Duration, ok bool)
	// Close stops background work. It does not close the caller's pool.
	Close() error
}
