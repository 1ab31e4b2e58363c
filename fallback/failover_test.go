package fallback_test

import (
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

// TestFailOverUnderLoad: two hosts in the DSN, the second a synchronous
// standby. The primary is killed under load and the standby promoted. The open
// ledger goes on by itself: everything acknowledged is there, fences go on far
// above, claims in flight are completed and take-overs rest. The old primary
// comes back as a primary: it confirms nothing to whoever meets it first.
func TestFailOverUnderLoad(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	standby := testenv.Standby(t, primary)
	hosts := bothHosts(t, primary, standby)
	adopted := make(chan observe.LedgerAdopted, 10)
	pool := newPool(t, hosts)
	l := openLedger(t, pool, brisk, func(c *fallback.Config) {
		c.Observer = observe.Func(func(e observe.Event) {
			if a, ok := e.(observe.LedgerAdopted); ok {
				adopted <- a
			}
		})
	})
	follow(t, primary)
	brief := holdPolicy()
	brief.Takeover, brief.Lease = fallback.Retry, 10*time.Millisecond
	lapsed := newRequest(brief)
	stale := mustClaim(t, l, lapsed)

	load := startClaims(t, l)
	load.granted(0, mustClaim(t, l, newRequest(holdPolicy()))) // in flight until the end
	eventually(t, "keys are served", func() bool { return load.count() > 100 })
	if err := primary.Kill(); err != nil {
		t.Fatal(err)
	}
	before := load.turn()
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "keys are served by the other server", func() bool { return load.count() > 100 })
	load.stop()

	if lowest := load.lowest; lowest < before+1<<32 {
		t.Errorf("fence %d after %d: the new timeline was not noticed", lowest, before)
	}
	if len(adopted) != 1 {
		t.Errorf("adopted %d times", len(adopted))
	}
	load.check(t, l)
	again := lapsed
	again.Token = fallback.NewToken()
	if v, err := l.TakeOver(t.Context(), again, stale.Fence); err != nil || v.Granted != nil || !v.Row.Lapsed() {
		t.Errorf("a take-over before the longest lease has ended: %+v, %v", v, err)
	}
	held := mustClaim(t, l, newRequest(holdPolicy()))
	if err := primary.Restart(); err != nil {
		t.Fatal(err)
	}
	pool.Reset() // its next connections lead to the first host of the DSN
	meetsOld(t, l, held)
	confirmsNothing(t, hosts, load)
}

// meetsOld: a ledger that has met the new primary takes no answer of the old
// one, to which the newer claims are unknown.
func meetsOld(t *testing.T, l *fallback.Postgres, held fallback.Ref) {
	t.Helper()
	_, err := l.Claim(t.Context(), newRequest(holdPolicy()))
	if !errors.Is(err, fallback.ErrUnavailable) || errors.Is(err, fallback.ErrUnconfirmed) || !strings.Contains(err.Error(), "timeline 00000001") {
		t.Errorf("a claim at the old primary: %v", err)
	}
	if _, err := l.Read(t.Context(), held.Digest); !errors.Is(err, fallback.ErrUnavailable) {
		t.Errorf("a read at the old primary: %v", err)
	}
	if _, err := l.Complete(t.Context(), fallback.Completion{Ref: held}); !errors.Is(err, fallback.ErrUnavailable) {
		t.Errorf("a completion at the old primary: %v", err)
	}
}

// bothHosts returns a DSN that leads to whichever of the two takes writes.
func bothHosts(t *testing.T, first, second *testenv.PostgresServer) string {
	t.Helper()
	u, err := url.Parse(first.URL())
	if err != nil {
		t.Fatal(err)
	}
	other, err := url.Parse(second.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host += "," + other.Host
	u.RawQuery += "&target_session_attrs=read-write"
	return u.String()
}

// follow makes the primary acknowledge nothing that its standby does not have.
func follow(t *testing.T, primary *testenv.PostgresServer) {
	t.Helper()
	newStandbySetting(t, primary.URL())(testenv.StandbyName)
	pool := newPool(t, primary.URL())
	defer pool.Close()
	eventually(t, "the standby is synchronous", func() bool {
		var state string
		err := pool.QueryRow(t.Context(), "SELECT sync_state FROM pg_stat_replication").Scan(&state)
		return err == nil && state == "sync"
	})
}

// confirmsNothing: a ledger that is opened when the old primary is back meets
// it first. It grants neither a fresh key nor one that the other server has
// completed since, which it has never heard of.
func confirmsNothing(t *testing.T, hosts string, load *claims) {
	t.Helper()
	pool := newPool(t, hosts)
	l := openLedger(t, pool, brisk, func(c *fallback.Config) { c.Migrate = false })
	var timeline string
	err := pool.QueryRow(t.Context(), "SELECT timeline FROM idempotency_meta").Scan(&timeline)
	if err != nil || timeline != "00000001" {
		t.Fatalf("not the old primary, the test shows nothing: timeline %q, %v", timeline, err)
	}
	var wg sync.WaitGroup
	for _, r := range []fallback.ClaimRequest{newRequest(holdPolicy()), load.last} {
		wg.Go(func() {
			r.Token = fallback.NewToken()
			if v, err := l.Claim(t.Context(), r); !errors.Is(err, fallback.ErrUnconfirmed) {
				t.Errorf("the old primary says: %+v, %v", v, err)
			}
		})
	}
	wg.Wait()
}
