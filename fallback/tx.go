package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A TxLedger can record a completion in the transaction that holds the
// handler's own writes (R15).
type TxLedger interface {
	Ledger
	// BeginTx begins a transaction on the ledger's database. The zero options
	// are READ COMMITTED. The server ends the transaction when it is idle for
	// longer than idle.
	BeginTx(ctx context.Context, options pgx.TxOptions, idle time.Duration) (pgx.Tx, error)
	// CompleteTx is the last statement before COMMIT. ErrRefused when it
	// changed no row: roll back, and read the row for what is so.
	CompleteTx(ctx context.Context, tx pgx.Tx, c Completion) error
}

var _ TxLedger = (*Postgres)(nil)

// BeginTx implements TxLedger. Commit and Rollback give the connection back;
// one of them must be called.
func (p *Postgres) BeginTx(ctx context.Context, options pgx.TxOptions, idle time.Duration) (pgx.Tx, error) {
	conn, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := p.beginOn(ctx, conn, options, idle)
	if err != nil {
		conn.Release()
		return nil, verdictOf(err)
	}
	return &pooledTx{Tx: tx, conn: conn}, nil
}

func (p *Postgres) beginOn(ctx context.Context, conn *pgxpool.Conn, options pgx.TxOptions, idle time.Duration) (pgx.Tx, error) {
	if err := p.admit(ctx, conn.Conn()); err != nil {
		return nil, err
	}
	if options.IsoLevel == "" {
		options.IsoLevel = pgx.ReadCommitted
	}
	if options.AccessMode == "" {
		options.AccessMode = pgx.ReadWrite
	}
	tx, err := conn.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, p.sql.idle.text, timeoutText(idle))
	if err != nil {
		discard(conn.Conn())
		return nil, err
	}
	return tx, nil
}

// pooledTx gives its connection back when it ends.
type pooledTx struct {
	pgx.Tx
	conn *pgxpool.Conn
}

// Commit implements pgx.Tx.
func (t *pooledTx) Commit(ctx context.Context) error {
	err := t.Tx.Commit(ctx)
	t.giveBack()
	return err
}

// Rollback implements pgx.Tx.
func (t *pooledTx) Rollback(ctx context.Context) error {
	err := t.Tx.Rollback(ctx)
	t.giveBack()
	return err
}

func (t *pooledTx) giveBack() {
	if t.conn != nil {
		t.conn.Release()
		t.conn = nil
	}
}

// CompleteTx implements TxLedger. It sets the transaction's durability and
// bounds again: the handler may have changed them.
func (p *Postgres) CompleteTx(ctx context.Context, tx pgx.Tx, c Completion) error {
	if err := p.durable(ctx, tx); err != nil {
		return fmt.Errorf("complete in the transaction: %w", err)
	}
	tag, err := tx.Exec(ctx, p.sql.completeTx.text,
		c.Digest[:], c.Token[:], c.Fence, int32(c.Status), c.Response, plainText(c.Reason))
	switch {
	case err != nil:
		return fmt.Errorf("complete in the transaction: %w", err)
	case tag.RowsAffected() != 1:
		return fmt.Errorf("%w: the transaction must be rolled back", ErrRefused)
	}
	return nil
}

// RolledBack reports whether a failed COMMIT has definitely rolled back. Any
// other failure leaves it in doubt: read the row.
func RolledBack(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.As(err, &pg) && !fatal(pg)
}

// Retryable reports whether a transaction that failed with err was rolled back
// for a reason that goes away: a serialization failure, a deadlock, a lock or
// statement time-out. The whole transaction may then be run again.
func Retryable(err error) bool {
	switch code(err) {
	case codeSerialization, codeDeadlock, codeLockTimeout, codeCancelled:
		return true
	}
	return false
}
