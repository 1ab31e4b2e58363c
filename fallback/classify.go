package fallback

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that the ledger acts on.
const (
	codeSerialization = "40001"
	codeDeadlock      = "40P01"
	codeLockTimeout   = "55P03"
	codeCancelled     = "57014" // statement_timeout
	codeReadOnly      = "25006" // a standby, or a primary that was demoted
	codeNoStatement   = "26000" // somebody deallocated our prepared statement
	codeStalePlan     = "0A000" // a migration changed what a cached plan returns
)

// An attemptError says how far a transaction got when it failed.
type attemptError struct {
	how attempt
	err error
}

// attempt is how far a failed transaction can have got.
type attempt uint8

const (
	// notSent: the server has seen nothing of it.
	notSent attempt = iota
	// aborted: the server has rolled it back, or never began it.
	aborted
	// inDoubt: it may be committed, or may yet be.
	inDoubt
)

func (e *attemptError) Error() string { return e.err.Error() }
func (e *attemptError) Unwrap() error { return e.err }

// howFar returns how far the transaction behind err can have got.
func howFar(err error) attempt {
	var a *attemptError
	if errors.As(err, &a) {
		return a.how
	}
	return inDoubt
}

// afterSend judges an error that came while the answers were read: one that
// the server reports as an error of the statement has rolled it back, all else
// leaves its commit in doubt.
func afterSend(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !fatal(pg) {
		return &attemptError{aborted, err}
	}
	if pgconn.SafeToRetry(err) {
		return &attemptError{notSent, err}
	}
	return &attemptError{inDoubt, err}
}

// fatal errors end the connection. With them the fate of a COMMIT that was on
// its way is not known.
func fatal(pg *pgconn.PgError) bool {
	return pg.SeverityUnlocalized == "FATAL" || pg.SeverityUnlocalized == "PANIC"
}

// code returns the SQLSTATE of an error, or "".
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// retryable errors go away by themselves.
func retryable(err error) bool {
	switch code(err) {
	case codeSerialization, codeDeadlock, codeLockTimeout, codeCancelled, codeNoStatement, codeStalePlan:
		return true
	}
	return unfit(err)
}

// unfit errors are the connection's fault: it must not be used again. 57P0x:
// the server shuts down, crashed, or refuses connections.
func unfit(err error) bool {
	switch c := code(err); c {
	case codeReadOnly, codeNoStatement, codeStalePlan:
		return true
	default:
		return len(c) == 5 && c[:4] == "57P0"
	}
}

// verdictOf turns the failure of a transaction into what callers match.
func verdictOf(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrUnconfirmed), errors.Is(err, ErrOverloaded), errors.Is(err, ErrUnavailable):
		return err
	case code(err) == codeLockTimeout:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case rowsFault(err):
		return fmt.Errorf("the ledger rejects the row: %w", err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// rowsFault: the server rejects what the row holds, or it cannot be encoded.
// Class 53 is the server short of disk, memory or connections, 28 and 42 are
// its configuration.
func rowsFault(err error) bool {
	var bad *encodeError
	if errors.As(err, &bad) {
		return true
	}
	switch c := code(err); {
	case c == "", retryable(err), howFar(err) != aborted:
		return false
	default:
		return c[:2] == "22" || c[:2] == "23" || c[:2] == "54" || c[:2] == "P0"
	}
}
