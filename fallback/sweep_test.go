package fallback_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// age moves everything that a row knows of time into the past.
func age(t testing.TB, pool *pgxpool.Pool, d fallback.Digest, by time.Duration) {
	t.Helper()
	var set string
	for i, column := range []string{"claimed_at", "lease_until", "recover_until", "completed_at", "released_at", "expires_at"} {
		if i > 0 {
			set += ", "
		}
		set += fmt.Sprintf("%s = %s - $2::int8 * interval '1 microsecond'", column, column)
	}
	if _, err := pool.Exec(t.Context(), "UPDATE idempotency_keys SET "+set+" WHERE digest = $1", d[:], by.Microseconds()); err != nil {
		t.Fatal(err)
	}
}

// sweepAll sweeps the whole table once.
func sweepAll(t testing.TB, l *fallback.Postgres) (removed int64) {
	t.Helper()
	for page := int64(0); ; {
		s, err := l.SweepOnce(t.Context(), page)
		if err != nil {
			t.Fatal(err)
		}
		if s.Skipped {
			t.Fatal("somebody else sweeps")
		}
		removed += s.Removed
		if page = s.Next; page == 0 {
			return removed
		}
	}
}

// TestSweep: only rows that have been claimable for longer than the grace are
// removed; nothing goes by the age of a claim.
func TestSweep(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, func(c *fallback.Config) { c.Sweep.Pages = 1 })
	row := func(p fallback.Policy, old time.Duration, end func(fallback.Ref) error) fallback.Digest {
		t.Helper()
		r := newRequest(p)
		mine := mustClaim(t, l, r)
		if err := end(mine); err != nil {
			t.Fatal(err)
		}
		age(t, pool, r.Digest, old)
		return r.Digest
	}
	complete := func(r fallback.Ref) error {
		_, err := l.Complete(t.Context(), fallback.Completion{Ref: r, Response: make([]byte, 900)})
		return err
	}
	bury := func(r fallback.Ref) error { _, err := l.Bury(t.Context(), fallback.Burial{Ref: r}); return err }
	stream := func(r fallback.Ref) error { _, err := l.Stream(t.Context(), r); return err }
	release := func(r fallback.Ref) error { return l.Release(t.Context(), r, "undone") }
	abandon := func(r fallback.Ref) error { return l.Abandon(t.Context(), r, "panic") }
	nothing := func(fallback.Ref) error { return nil }
	never, forever := holdPolicy(), holdPolicy()
	never.AfterExpiry, forever.Retention = fallback.NeverAgain, fallback.Forever
	const year = 365 * 24 * time.Hour

	gone, kept := map[string]fallback.Digest{}, map[string]fallback.Digest{}
	gone["completed"] = row(holdPolicy(), year, complete)
	gone["tombstone"] = row(holdPolicy(), year, bury)
	gone["released"] = row(holdPolicy(), year, release)
	kept["processing"] = row(holdPolicy(), year, nothing)
	kept["unknown"] = row(holdPolicy(), year, abandon)
	kept["streaming"] = row(holdPolicy(), year, stream)
	kept["never again"] = row(never, year, complete)
	kept["for ever"] = row(forever, year, complete)
	kept["in retention"] = row(holdPolicy(), 50*time.Minute, complete)
	kept["expired within the grace"] = row(holdPolicy(), 65*time.Minute, complete)
	kept["released within the grace"] = row(holdPolicy(), 5*time.Minute, release)
	locked := row(holdPolicy(), year, complete)
	unlock := lockRow(t, pool, locked)
	defer unlock()

	if n := sweepAll(t, l); n != int64(len(gone)) {
		t.Errorf("removed %d rows, want %d", n, len(gone))
	}
	for name, d := range gone {
		if r := mustRead(t, l, d); r.State != fallback.Absent {
			t.Errorf("%s: %v", name, r.State)
		}
	}
	for name, d := range kept {
		if r := mustRead(t, l, d); r.State == fallback.Absent {
			t.Errorf("%s was removed", name)
		}
	}
	unlock()
	if n := sweepAll(t, l); n != 1 {
		t.Errorf("removed %d rows once one was unlocked", n)
	}
}

// TestOneSweeper: while another session sweeps, this one does not.
func TestOneSweeper(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, func(c *fallback.Config) {
		c.StatementTimeout, c.LockTimeout = time.Minute, 50*time.Second
	})
	mustClaim(t, l, newRequest(holdPolicy()))
	exec(t, pool, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock(7); RETURN OLD; END $$;
		CREATE TRIGGER hold BEFORE DELETE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION hold()`)
	r := newRequest(holdPolicy())
	if err := l.Release(t.Context(), mustClaim(t, l, r), "undone"); err != nil {
		t.Fatal(err)
	}
	age(t, pool, r.Digest, time.Hour)
	var swept chan error
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), "SELECT pg_advisory_xact_lock(7)"); err != nil {
			return err
		}
		first := make(chan error, 1)
		go func() {
			_, err := l.SweepOnce(context.WithoutCancel(t.Context()), 0)
			first <- err
		}()
		eventually(t, "one sweeps", func() bool {
			var waits int
			err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waits)
			return err == nil && waits == 1
		})
		if s, err := l.SweepOnce(t.Context(), 0); err != nil || !s.Skipped {
			t.Errorf("the other: %+v, %v", s, err)
		}
		swept = first
		return nil
	})
	if err := <-swept; err != nil {
		t.Errorf("the one that swept: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSweeperRuns: the sweeper works by itself.
func TestSweeperRuns(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, func(c *fallback.Config) { c.Sweep = fallback.Sweep{Interval: 5 * time.Millisecond} })
	r := newRequest(holdPolicy())
	if err := l.Release(t.Context(), mustClaim(t, l, r), "undone"); err != nil {
		t.Fatal(err)
	}
	age(t, pool, r.Digest, time.Hour)
	eventually(t, "the row is gone", func() bool { return mustRead(t, l, r.Digest).State == fallback.Absent })
}

// TestUpdatesStayInTheirPage: no index but the primary key is kept up, so that
// claim, renewal and completion of a key are heap-only updates.
func TestUpdatesStayInTheirPage(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool)
	for range 20 {
		mine := mustClaim(t, l, newRequest(holdPolicy()))
		if _, err := l.Renew(t.Context(), mine, false); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Complete(t.Context(), fallback.Completion{Ref: mine, Response: make([]byte, 300)}); err != nil {
			t.Fatal(err)
		}
	}
	pool.Reset() // sessions report their statistics when they end
	eventually(t, "the updates are counted and nearly all are heap-only", func() bool {
		var all, hot int
		err := pool.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'idempotency_keys'").Scan(&all, &hot)
		return err == nil && all >= 40 && hot*10 >= all*8
	})
}
