package redfence

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/redfence/redfence/observe"
)

// Sentinels. Each is matched with errors.Is; where a context ended, its error
// matches as well.
var (
	// ErrInProgress: the key is being worked on, here or elsewhere, and the
	// time to wait is up. Come back later.
	ErrInProgress = errors.New("in progress")
	// ErrMismatch: the key was used before with another request.
	ErrMismatch = errors.New("key used with another request")
	// ErrUnknownOutcome: a handler started for this key and nobody recorded
	// how it ended. Its owner, a recovery hook or an operator decides
	// (Engine.Resolve).
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrInDoubt: the row was written by another version of the program, or
	// under a secret that this process does not have. Nothing was started.
	ErrInDoubt = errors.New("in doubt")
	// ErrClaimLost is the cause of the handler's context when its claim may
	// be another's.
	ErrClaimLost = errors.New("claim lost")
	// ErrMaxProcessing is the cause of the handler's context when
	// Policy.MaxProcessing has passed.
	ErrMaxProcessing = errors.New("max processing time passed")
	// ErrLedgerUnavailable: the ledger cannot be reached, so a fresh key is
	// refused. Nothing was started.
	ErrLedgerUnavailable = errors.New("ledger unavailable")
	// ErrNotReplayable: the key was completed, and its response cannot be
	// given again.
	ErrNotReplayable = errors.New("response not replayable")
	// ErrOverloaded: this process has too much in flight. Nothing was
	// started.
	ErrOverloaded = errors.New("overloaded")
	// ErrExpired: the key's retention is over and its policy says that it
	// never runs again.
	ErrExpired = errors.New("key expired")
	// ErrInvalid: the request cannot be used as it is. Nothing was started.
	ErrInvalid = errors.New("invalid request")
	// ErrNotErased: the ledger has forgotten a response that some node of the
	// cache may still hold.
	ErrNotErased = errors.New("not erased everywhere")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("engine closed")
)

// An Error is what Do, DoTx, Inspect, Resolve and Forget return. It unwraps to
// the sentinel and to the cause. New and Close return plain errors, Acquire a
// *lock.Error.
type Error struct {
	// Op is the method: do, inspect, resolve.
	Op string
	// Key is what the caller asked for.
	Key Key
	// Route is the route that the request took; empty when it took none.
	Route observe.Route
	// Kind is the sentinel.
	Kind error
	// Err is the cause, nil when Kind says it all.
	Err error
	// Hint is what to do next; may be empty.
	Hint string
}

// Error returns one line; the key is quoted and capped, the scope left out.
func (e *Error) Error() string {
	text := fmt.Sprintf("redfence: %s %s: %v", e.Op, quoteKey(e.Key.ID), e.Kind)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap returns the sentinel and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// describe completes an engine's error: a bare sentinel becomes an *Error, and
// what an *Error does not say yet is filled in. Other errors are the handler's
// and stay as they are.
func describe(err error, op string, key Key, route observe.Route) error {
	var known *Error
	switch {
	case err == nil:
		return nil
	case isSentinel(err):
		known = &Error{Kind: err}
	default:
		e, ok := err.(*Error)
		if !ok {
			return err
		}
		full := *e
		known = &full
	}
	if known.Op == "" {
		known.Op, known.Key, known.Route = op, key, route
	}
	if known.Hint == "" {
		known.Hint = hints[known.Kind]
	}
	return known
}

func isSentinel(err error) bool {
	switch err {
	case ErrInProgress, ErrMismatch, ErrUnknownOutcome, ErrInDoubt, ErrClaimLost, ErrMaxProcessing, ErrLedgerUnavailable,
		ErrNotReplayable, ErrOverloaded, ErrExpired, ErrInvalid, ErrNotErased, ErrClosed:
		return true
	}
	return false
}

// hints say what to do next.
var hints = map[error]string{
	ErrInProgress:        "send the same request again later",
	ErrMismatch:          "use a new key for a new request",
	ErrUnknownOutcome:    "find out whether the effect happened, then redfence resolve",
	ErrLedgerUnavailable: "nothing was started; send the same request again later",
	ErrOverloaded:        "nothing was started; send the same request again later",
}

const shownKey = 12 // bytes

// quoteKey shows the beginning of a key: enough to find a request, too little
// to replay one.
func quoteKey(id string) string {
	if len(id) > shownKey {
		return strconv.Quote(id[:shownKey]) + "…"
	}
	return strconv.Quote(id)
}

// Undone declares that the handler had no effect: the claim is released and
// the next request runs the handler again. Do's error matches err. Undone(nil)
// is nil.
func Undone(err error) error { return declare(err, ErrorReleases) }

// Store declares that the error is the outcome: it is recorded, and every
// duplicate gets a *StoredError with its text. Do's error matches err.
// Store(nil) is nil.
func Store(err error) error { return declare(err, ErrorStores) }

func declare(err error, means OnError) error {
	if err == nil {
		return nil
	}
	return &declared{err: err, means: means}
}

// declared is an error together with what the handler says it means.
type declared struct {
	err   error
	means OnError
}

func (d *declared) Error() string { return d.err.Error() }
func (d *declared) Unwrap() error { return d.err }

// meaning returns the handler's error and what it means, by declaration or
// else by the policy.
func meaning(err error, otherwise OnError) (error, OnError) {
	var d *declared
	if errors.As(err, &d) {
		return err, d.means
	}
	return err, otherwise
}

// A StoredError is a handler's error that was recorded and is replayed. Only
// its text survives: errors.Is does not match the original.
type StoredError struct{ Text string }

// Error returns the text of the handler's error.
func (e *StoredError) Error() string { return e.Text }
