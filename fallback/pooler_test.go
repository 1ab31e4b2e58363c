package fallback_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/fallback/ledgertest"
	"github.com/redfence/redfence/internal/testenv"
)

// TestTransactionPooler: the suite passes through a pgbouncer in transaction
// mode, poll-only, with connections to the server that change.
func TestTransactionPooler(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Pooler(t, testenv.Postgres(t)))
	connectionsChange(t, pool)
	openLedger(t, pool)
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
		return ledgertest.Harness{Ledger: openLedger(t, pool)}
	})
}

// connectionsChange: one client's transactions meet another server process
// when the last one is busy.
func connectionsChange(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	first := serverProcess(t, conn.Conn())
	other, err := pool.Begin(t.Context()) // takes the process that was used last
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback(context.WithoutCancel(t.Context()))
	if taken := serverProcess(t, other.Conn()); taken != first {
		t.Fatalf("a transaction of another client meets process %d, not %d", taken, first)
	}
	if second := serverProcess(t, conn.Conn()); second == first {
		t.Fatal("the client keeps its server process: the test shows nothing")
	}
}

func serverProcess(t *testing.T, c *pgx.Conn) (pid int) {
	t.Helper()
	if err := c.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// TestWakeBesideAPooler: with a direct address for LISTEN, hints arrive though
// all else goes through the pooler.
func TestWakeBesideAPooler(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	url := testenv.Pooler(t, server)
	direct, err := pgx.ParseConfig(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	listen := func(c *fallback.Config) { c.Listen.Conn = direct }
	owner, waiter := openLedger(t, newPool(t, url), listen), openLedger(t, newPool(t, url), listen)
	wakesAcross(t, owner, waiter)
}
