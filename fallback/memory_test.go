package fallback_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/fallback/ledgertest"
	"github.com/redfence/redfence/internal/testenv"
)

func TestMemoryConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(*testing.T) ledgertest.Harness {
		return ledgertest.Harness{Ledger: fallback.NewMemory()}
	})
}

// TestMemoryOnAFakeClock: testing/synctest drives the ledger's clock.
func TestMemoryOnAFakeClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fallback.NewMemory()
		p := holdPolicy()
		p.Takeover = fallback.Retry
		r := newRequest(p)
		stale := mustClaim(t, l, r)
		time.Sleep(p.Lease - time.Nanosecond)
		if row := mustRead(t, l, r.Digest); row.Lapsed() {
			t.Fatal("lapsed before its end")
		}
		time.Sleep(time.Nanosecond)
		if row := mustRead(t, l, r.Digest); !row.Lapsed() {
			t.Fatal("not lapsed at its end")
		}
		next := r
		next.Token = fallback.NewToken()
		v, err := l.TakeOver(t.Context(), next, stale.Fence)
		if err != nil || v.Granted == nil || v.Granted.Attempt != 2 {
			t.Fatalf("%+v, %v", v, err)
		}
		if left := time.Until(v.Granted.Deadline); left >= p.Lease || left < p.Lease*98/100 {
			t.Fatalf("a deadline in %v, of a lease of %v", left, p.Lease)
		}
	})
}

// TestMemoryStaysSmall: rows that nobody needs any more go as new ones come.
func TestMemoryStaysSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fallback.NewMemory()
		p := holdPolicy()
		for range 200 {
			for range 100 {
				mine := mustClaim(t, l, newRequest(p))
				if _, err := l.Complete(t.Context(), fallback.Completion{Ref: mine}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(p.Retention / 10)
		}
		rows, err := l.List(t.Context(), fallback.Filter{Limit: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		// 100 in each tenth of the retention of an hour, and its ten minutes of grace.
		if len(rows) > 2500 {
			t.Fatalf("%d rows are kept", len(rows))
		}
	})
}

// TestNodeSetIsComparedAndSet: of two engines that declare another set of Redis
// nodes one wins, and the other sees it.
func TestNodeSetIsComparedAndSet(t *testing.T) {
	t.Parallel()
	for name, keeper := range map[string]fallback.NodeSetKeeper{
		"memory":   fallback.NewMemory(),
		"Postgres": openLedger(t, newPool(t, testenv.Postgres(t).URL())),
	} {
		for _, step := range []struct {
			was, next string
			want      bool
		}{{"", "a,b,c", true}, {"", "d", false}, {"a,b,c", "a,b,c,d,e", true}} {
			if got, err := keeper.SetNodeSet(t.Context(), step.was, step.next); err != nil || got != step.want {
				t.Errorf("%s: %q to %q: %v, %v", name, step.was, step.next, got, err)
			}
		}
		if set, err := keeper.NodeSet(t.Context()); err != nil || set.Nodes != "a,b,c,d,e" || set.Since.IsZero() {
			t.Errorf("%s: %+v, %v", name, set, err)
		}
	}
}
