package fallback_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestI31OverlappingTransactions: a claim and a take-over meet a transaction of
// another session that has taken the row and not yet committed. They wait, and
// go by what it did: after its commit they are denied, after its rollback
// granted under a fence above the one that it had drawn.
func TestI31OverlappingTransactions(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, func(c *fallback.Config) {
		c.StatementTimeout, c.LockTimeout = time.Minute, 50*time.Second
	})
	lapsing := holdPolicy()
	lapsing.Takeover, lapsing.Lease, lapsing.MaxProcessing = fallback.Retry, time.Millisecond, time.Millisecond

	released := func() (fallback.ClaimRequest, int64) {
		r := newRequest(holdPolicy())
		mine := mustClaim(t, l, r)
		if err := l.Release(t.Context(), mine, "undone"); err != nil {
			t.Fatal(err)
		}
		return r, mine.Fence
	}
	lapsed := func() (fallback.ClaimRequest, int64) {
		r := newRequest(lapsing)
		mine := mustClaim(t, l, r)
		eventually(t, "the claim lapses", func() bool { row := mustRead(t, l, r.Digest); return row.Lapsed() })
		return r, mine.Fence
	}
	claim := func(r fallback.ClaimRequest, _ int64) (fallback.Verdict, error) { return l.Claim(t.Context(), r) }
	takeOver := func(r fallback.ClaimRequest, fence int64) (fallback.Verdict, error) {
		return l.TakeOver(t.Context(), r, fence)
	}
	for name, tt := range map[string]struct {
		row  func() (fallback.ClaimRequest, int64)
		call func(fallback.ClaimRequest, int64) (fallback.Verdict, error)
	}{"claim": {released, claim}, "take-over": {lapsed, takeOver}} {
		for _, commit := range []bool{true, false} {
			r, old := tt.row()
			other, drawn := takeRow(t, pool.Config().ConnConfig, r.Digest)
			next := r
			next.Token = fallback.NewToken()
			result := make(chan fallback.Verdict, 1)
			go func() {
				v, err := tt.call(next, old)
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				result <- v
			}()
			waitsForALock(t, pool)
			if commit {
				exec1(t, other, "COMMIT")
			} else {
				exec1(t, other, "ROLLBACK")
			}
			v := <-result
			switch {
			case commit && (v.Granted != nil || v.Row == nil || v.Row.Fence != drawn):
				t.Errorf("%s after the commit of fence %d: granted %+v, row %+v", name, drawn, v.Granted, v.Row)
			case !commit && (v.Granted == nil || v.Granted.Fence <= drawn):
				t.Errorf("%s after the rollback of fence %d: granted %+v", name, drawn, v.Granted)
			}
		}
	}
}

// TestFenceIsDrawnUnderTheRowsLock: while a claim waits for its row, the row is
// claimed under a later fence and released. The claim is granted, above it.
func TestFenceIsDrawnUnderTheRowsLock(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, func(c *fallback.Config) {
		c.StatementTimeout, c.LockTimeout = time.Minute, 50*time.Second
	})
	r := newRequest(holdPolicy())
	if err := l.Release(t.Context(), mustClaim(t, l, r), "undone"); err != nil {
		t.Fatal(err)
	}
	other, _ := takeRow(t, pool.Config().ConnConfig, r.Digest)
	r.Token = fallback.NewToken()
	result := make(chan fallback.Verdict, 1)
	go func() {
		v, err := l.Claim(t.Context(), r)
		if err != nil {
			t.Errorf("Claim: %v", err)
		}
		result <- v
	}()
	waitsForALock(t, pool)
	var later int64
	err := other.QueryRow(t.Context(), `UPDATE idempotency_keys SET state = 'released', released_at = now(),
		fence = nextval('idempotency_fence') WHERE digest = $1 RETURNING fence`, r.Digest[:]).Scan(&later)
	if err != nil {
		t.Fatal(err)
	}
	exec1(t, other, "COMMIT")
	if v := <-result; v.Granted == nil || v.Granted.Fence <= later {
		t.Errorf("granted %+v, row %+v after fence %d", v.Granted, v.Row, later)
	}
}

// waitsForALock waits until one session waits for a lock.
func waitsForALock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	eventually(t, "it waits for the row", func() bool {
		var n int
		err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		return err == nil && n == 1
	})
}

// takeRow takes a row in a transaction of a session of its own, and leaves the
// transaction open.
func takeRow(t *testing.T, cfg *pgx.ConnConfig, d fallback.Digest) (c *pgx.Conn, fence int64) {
	t.Helper()
	c, err := pgx.ConnectConfig(t.Context(), cfg.Copy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.PgConn().Conn().Close() })
	exec1(t, c, "BEGIN")
	err = c.QueryRow(t.Context(), `UPDATE idempotency_keys SET state = 'processing', fence = nextval('idempotency_fence'),
		token = '\x00', lease_until = now() + interval '1 hour' WHERE digest = $1 RETURNING fence`, d[:]).Scan(&fence)
	if err != nil {
		t.Fatal(err)
	}
	return c, fence
}

func exec1(t *testing.T, c *pgx.Conn, statement string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
