package fallback_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// txLedger returns a ledger and its pool with a table for effects.
func txLedger(t *testing.T) (*fallback.Postgres, func() int) {
	t.Helper()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool)
	exec(t, pool, "CREATE TABLE effects (id text)")
	return l, func() int {
		t.Helper()
		var n int
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func effect(t *testing.T, l *fallback.Postgres, o pgx.TxOptions, id string) pgx.Tx {
	t.Helper()
	tx, err := l.BeginTx(t.Context(), o, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES ($1)", id); err != nil {
		t.Fatal(err)
	}
	return tx
}

func recorded(r fallback.Ref, body string) fallback.Completion {
	return fallback.Completion{Ref: r, Status: 200, Response: []byte(body)}
}

// TestCompleteTx: the handler's effect and the completion are one commit.
func TestCompleteTx(t *testing.T) {
	t.Parallel()
	l, effects := txLedger(t)
	r := newRequest(holdPolicy())
	mine := mustClaim(t, l, r)
	tx := effect(t, l, pgx.TxOptions{}, "a")
	if err := l.CompleteTx(t.Context(), tx, recorded(mine, "body")); err != nil {
		t.Fatal(err)
	}
	if row := mustRead(t, l, r.Digest); row.State != fallback.Processing || effects() != 0 {
		t.Fatalf("before COMMIT the row is %v, with %d effects", row.State, effects())
	}
	var isolation, commit, idle string
	err := tx.QueryRow(t.Context(), `SELECT current_setting('transaction_isolation'), current_setting('synchronous_commit'),
		current_setting('idle_in_transaction_session_timeout')`).Scan(&isolation, &commit, &idle)
	if err != nil || isolation != "read committed" || commit != "on" || idle != "1min" {
		t.Fatalf("%s, %s, %s, %v", isolation, commit, idle, err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if row := mustRead(t, l, r.Digest); row.State != fallback.Completed || string(row.Response) != "body" || effects() != 1 {
		t.Fatalf("the row is %+v, with %d effects", row, effects())
	}
}

// TestI42CommitLost: whether a COMMIT whose answer is lost took effect is told
// by the row: completed under the token, or still processing under it.
func TestI42CommitLost(t *testing.T) {
	t.Parallel()
	l, effects := txLedger(t)
	r := newRequest(holdPolicy())
	mine := mustClaim(t, l, r)
	tx := effect(t, l, pgx.TxOptions{}, "lost and rolled back")
	if err := l.CompleteTx(t.Context(), tx, recorded(mine, "body")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Conn().Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err == nil {
		t.Fatal("a commit on a dead connection succeeded")
	}
	if row := mustRead(t, l, r.Digest); row.State != fallback.Processing || row.Token != r.Token || effects() != 0 {
		t.Fatalf("rolled back, and the row is %+v", row)
	}
	tx = effect(t, l, pgx.TxOptions{}, "lost and applied")
	if err := l.CompleteTx(t.Context(), tx, recorded(mine, "body")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil { // its answer is what a test may call lost
		t.Fatal(err)
	}
	if row := mustRead(t, l, r.Digest); row.State != fallback.Completed || row.Token != r.Token || effects() != 1 {
		t.Fatalf("applied, and the row is %+v", row)
	}
}

// TestI54RunAgain: the function ran again after a lost COMMIT, and the first
// commit lands meanwhile. The second finds no row to complete and rolls back.
func TestI54RunAgain(t *testing.T) {
	t.Parallel()
	l, effects := txLedger(t)
	r := newRequest(holdPolicy())
	mine := mustClaim(t, l, r)
	first := effect(t, l, pgx.TxOptions{}, "first")
	if err := l.CompleteTx(t.Context(), first, recorded(mine, "first")); err != nil {
		t.Fatal(err)
	}
	second := effect(t, l, pgx.TxOptions{}, "second")
	result := make(chan error, 1)
	go func() { result <- l.CompleteTx(t.Context(), second, recorded(mine, "second")) }()
	if err := first.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := <-result
	if !errors.Is(err, fallback.ErrRefused) {
		t.Fatalf("the second completion: %v, want ErrRefused", err)
	}
	if err := second.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if row := mustRead(t, l, r.Digest); string(row.Response) != "first" || effects() != 1 {
		t.Fatalf("the row says %q, with %d effects", row.Response, effects())
	}
}

// TestI43SnapshotTransaction: a transaction under REPEATABLE READ that is
// longer than a renewal interval commits, as nothing renews its row; one whose
// claim was renewed meanwhile would not.
func TestI43SnapshotTransaction(t *testing.T) {
	t.Parallel()
	l, effects := txLedger(t)
	r := newRequest(holdPolicy())
	mine := mustClaim(t, l, r)
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead}
	tx := effect(t, l, snapshot, "kept")
	mustClaim(t, l, newRequest(holdPolicy())) // the world goes on
	if err := l.CompleteTx(t.Context(), tx, recorded(mine, "body")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	mine = mustClaim(t, l, newRequest(holdPolicy()))
	tx = effect(t, l, snapshot, "aborted")
	if _, err := l.Renew(t.Context(), mine, false); err != nil {
		t.Fatal(err)
	}
	err := l.CompleteTx(t.Context(), tx, recorded(mine, "body"))
	if !fallback.Retryable(err) {
		t.Fatalf("after a renewal: %v, want a serialization failure", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if effects() != 1 {
		t.Fatalf("%d effects", effects())
	}
}

// TestIdleTransactionEnds: a transaction that sits idle with its locks is ended
// by the server.
func TestIdleTransactionEnds(t *testing.T) {
	t.Parallel()
	l, effects := txLedger(t)
	tx, err := l.BeginTx(t.Context(), pgx.TxOptions{}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(t.Context())
	if _, err := tx.Exec(t.Context(), "INSERT INTO effects VALUES ('idle')"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server ends it", func() bool {
		return tx.Conn().PgConn().CheckConn() != nil || tx.Conn().IsClosed()
	})
	if err := tx.Commit(t.Context()); err == nil || effects() != 0 {
		t.Fatalf("committed after all: %v", err)
	}
}
