package fallback

import (
	"errors"
	"time"
)

var (
	// ErrRefused: the compare-and-set matched no row. Terminal; no retry.
	ErrRefused = errors.New("refused by the ledger: the claim is not ours")
	// ErrUnavailable: the ledger cannot be reached or cannot serve.
	ErrUnavailable = errors.New("ledger unavailable")
	// ErrOverloaded: this process's own queue or connection pool is full.
	ErrOverloaded = errors.New("ledger queue full")
	// ErrBusy: another session holds the row for longer than lock_timeout.
	ErrBusy = errors.New("row busy in the ledger")
	// ErrUnconfirmed: a claim was sent and its verdict is not known.
	ErrUnconfirmed = errors.New("claim sent, verdict unknown")
	// ErrClosed: the ledger was closed.
	ErrClosed = errors.New("ledger closed")
)

// An UnconfirmedError says that a claim may or may not have been granted, and
// until when on the ledger's clock the statement can still claim. It matches
// ErrUnconfirmed and its cause.
type UnconfirmedError struct {
	NotAfter time.Time
	Err      error
}

// Error implements error.
func (e *UnconfirmedError) Error() string { return ErrUnconfirmed.Error() + ": " + e.Err.Error() }

// Unwrap returns ErrUnconfirmed and the cause.
func (e *UnconfirmedError) Unwrap() []error { return []error{ErrUnconfirmed, e.Err} }
