package fallback_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/fallback/ledgertest"
	"github.com/redfence/redfence/internal/testenv"
)

// newPool returns a pool that is closed after the test. edit may change its
// configuration.
func newPool(t testing.TB, url string, edit ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 8
	for _, e := range edit {
		e(cfg)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// openLedger opens a migrated ledger on the pool, closed after the test.
func openLedger(t testing.TB, pool *pgxpool.Pool, edit ...func(*fallback.Config)) *fallback.Postgres {
	t.Helper()
	cfg := fallback.Config{Migrate: true, Sweep: fallback.Sweep{Off: true}}
	for _, e := range edit {
		e(&cfg)
	}
	l, err := fallback.Open(t.Context(), pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func TestPostgresConformance(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	openLedger(t, pool)
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
		return ledgertest.Harness{Ledger: openLedger(t, pool)}
	})
}

// TestConformanceOfBatches: the statement of a batch does what that of one row
// does.
func TestConformanceOfBatches(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	openLedger(t, pool)
	ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
		return ledgertest.Harness{Ledger: openLedger(t, pool).InBatches()}
	})
}
