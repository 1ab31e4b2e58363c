package redfence

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/problems"
)

// Takeover says what happens to a claim whose owner is gone.
type Takeover = fallback.Takeover

// The two answers to an abandoned claim; no protocol removes the choice.
const (
	// Hold, the default: nothing takes the claim over. The key becomes unknown
	// until its owner, a recovery hook or an operator decides. At most once.
	Hold = fallback.Hold
	// Retry: when the owner has died, a later request runs the handler again
	// once the lease has lapsed. (What an error or a panic of a living handler
	// means, OnError and OnPanic say.) At least once; effectively once when the effect is deduplicated
	// downstream by the key.
	Retry = fallback.Retry
)

// AfterExpiry says what happens to a key when its retention is over.
type AfterExpiry = fallback.AfterExpiry

// What a request finds after the retention of its key.
const (
	// RunAgain, the default: the key is new.
	RunAgain = fallback.RunAgain
	// NeverAgain: the key is refused with ErrExpired for ever.
	NeverAgain = fallback.NeverAgain
)

// State is the state of a key in the ledger.
type State = fallback.State

// Forever is the retention that never ends.
const Forever = fallback.Forever

// NoWait as Policy.Wait: a duplicate of a key in flight is told so at once.
const NoWait time.Duration = -1

// OnError says what a plain error of the handler means.
type OnError uint8

const (
	// ErrorUnknown, the default: the effect may have happened; the key becomes
	// unknown.
	ErrorUnknown OnError = iota
	// ErrorReleases: the next request runs the handler again.
	ErrorReleases
	// ErrorStores: the error is stored and every duplicate gets it.
	ErrorStores
)

// A Policy says how one route treats its keys. The zero value of each field
// means its default; a policy is used whole and never merged with another.
type Policy struct {
	// OnAbandoned says what happens to a claim whose owner is gone.
	// Defaults to Hold.
	OnAbandoned Takeover
	// OnError says what a plain error of the handler means; Undone and Store
	// speak for themselves. Defaults to ErrorUnknown.
	OnError OnError
	// OnPanic says the same of a panic. Defaults to ErrorUnknown;
	// ErrorStores is refused.
	OnPanic OnError
	// Lease is how long a claim stays in force without renewal. It is renewed
	// every third of it. Defaults to 10 s; at least 100 ms.
	Lease time.Duration
	// MaxProcessing bounds one execution, renewals included: when it has
	// passed, the handler's context is cancelled with ErrMaxProcessing.
	// Defaults to 5 min; at least Lease.
	MaxProcessing time.Duration
	// MaxAttempts bounds how often Retry starts the handler for one key
	// before the key becomes unknown. Defaults to 5.
	MaxAttempts int
	// Retention is how long a response is kept, usually from minutes to
	// Forever; at least 100 ms. Defaults to 24 h.
	Retention time.Duration
	// AfterExpiry says what a request finds after that. Defaults to RunAgain.
	AfterExpiry AfterExpiry
	// Wait is how long a duplicate of a key in flight waits for its outcome
	// before it gets ErrInProgress. Defaults to as long as its context, which
	// should end some time; NoWait answers at once.
	Wait time.Duration
	// CancelOnLost cancels the handler's context under Hold as soon as its
	// lease could not be renewed in time, and not only at MaxProcessing.
	CancelOnLost bool
	// Recover decides keys whose outcome is unknown (R17). A duplicate that
	// finds one calls it, once the dead owner's time is over (MaxProcessing
	// and a margin after its claim), and then goes by its decision.
	// Defaults to none: an operator decides.
	Recover Recover `json:"-"`
	// Tx are the options of DoTx's transactions. Defaults to READ COMMITTED.
	Tx pgx.TxOptions
	// FailOpen runs the handler unprotected, at least once and unrecorded,
	// when the ledger cannot be reached. Off by default; think twice.
	FailOpen bool
}

const (
	defaultLease         = 10 * time.Second
	defaultMaxProcessing = 5 * time.Minute
	defaultMaxAttempts   = 5
	defaultRetention     = 24 * time.Hour
	minLease             = 100 * time.Millisecond
	minRetention         = 100 * time.Millisecond
)

// withDefaults returns the policy with its defaults filled in.
func (p Policy) withDefaults() Policy {
	setDefault(&p.Lease, defaultLease)
	setDefault(&p.MaxProcessing, max(defaultMaxProcessing, p.Lease))
	setDefault(&p.MaxAttempts, defaultMaxAttempts)
	setDefault(&p.Retention, defaultRetention)
	return p
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every problem of the policy at once, defaults applied.
func (p Policy) Validate() error {
	var list problems.List
	p.withDefaults().check(&list, "Policy")
	return list.Err()
}

func (p Policy) check(list *problems.List, name string) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			list.Add("%s.%s", name, fmt.Sprintf(format, args...))
		}
	}
	bad(p.OnAbandoned <= Retry, "OnAbandoned: unknown value %d; use Hold or Retry", p.OnAbandoned)
	bad(p.OnError <= ErrorStores, "OnError: unknown value %d", p.OnError)
	bad(p.OnPanic <= ErrorReleases, "OnPanic: use ErrorUnknown or ErrorReleases")
	bad(p.AfterExpiry <= NeverAgain, "AfterExpiry: unknown value %d; use RunAgain or NeverAgain", p.AfterExpiry)
	bad(p.Lease >= minLease, "Lease is %v; at least %v", p.Lease, minLease)
	bad(p.MaxProcessing >= p.Lease, "MaxProcessing is %v, less than Lease %v", p.MaxProcessing, p.Lease)
	bad(p.MaxAttempts >= 1, "MaxAttempts is %d; at least 1", p.MaxAttempts)
	bad(p.Retention >= minRetention, "Retention is %v; at least %v, or Forever", p.Retention, minRetention)
	bad(p.Wait >= 0 || p.Wait == NoWait, "Wait is %v; use NoWait, 0 or a positive duration", p.Wait)
}

// stored is the part of the policy that the row carries.
func (p Policy) stored() fallback.Policy {
	return fallback.Policy{
		Takeover: p.OnAbandoned, Lease: p.Lease, MaxProcessing: p.MaxProcessing,
		MaxAttempts: p.MaxAttempts, Retention: p.Retention, AfterExpiry: p.AfterExpiry,
	}
}
