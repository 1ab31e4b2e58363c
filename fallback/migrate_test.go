package fallback_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestMigrateTogether: any number of instances may migrate at the same time,
// and again.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).URL()
	var wg sync.WaitGroup
	for range 8 {
		pool := newPool(t, url)
		wg.Go(func() {
			if err := fallback.Migrate(t.Context(), pool, "ours"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	l := openLedger(t, newPool(t, url), func(c *fallback.Config) { c.Schema, c.Migrate = "ours", false })
	mustClaim(t, l, newRequest(holdPolicy()))
}

// TestPrintedMigrations: what is printed makes a ledger.
func TestPrintedMigrations(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	var script strings.Builder
	if err := fallback.PrintMigrations(&script, "printed"); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "BEGIN; "+script.String()+"COMMIT")
	l := openLedger(t, pool, func(c *fallback.Config) { c.Schema, c.Migrate = "printed", false })
	mustClaim(t, l, newRequest(holdPolicy()))
	if err := fallback.Migrate(t.Context(), pool, "printed"); err != nil {
		t.Fatalf("migrating a printed schema: %v", err)
	}
}

// TestSchemasAreLedgersOfTheirOwn: two schemas of one database do not meet.
func TestSchemasAreLedgersOfTheirOwn(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	a := openLedger(t, pool, func(c *fallback.Config) { c.Schema = "a" })
	b := openLedger(t, pool, func(c *fallback.Config) { c.Schema = "b" })
	r := newRequest(holdPolicy())
	mustClaim(t, a, r)
	mustClaim(t, b, r)
	if _, err := fallback.Open(t.Context(), pool, fallback.Config{Schema: strings.Repeat("s", 64)}); err == nil {
		t.Error("opened a schema whose name Postgres would cut")
	}
}
