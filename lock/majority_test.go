package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/testenv"
)

// TestMajorityFirst: an acquire asks three of five, and a lease that lasts is
// told to the others; its release takes back whatever was told.
func TestMajorityFirst(t *testing.T) {
	servers := testenv.Redis(t, 5)
	r := locker(t, clientsOf(servers), Config{Unguarded: true})
	short := take(t, r, "short")
	must(t, copies(t, servers, short.key, 3))
	must(t, short.Release(t.Context()))
	eventually(t, time.Second, func() error { return copies(t, servers, short.key, 0) })

	long := take(t, r, "long")
	eventually(t, 2*time.Second, func() error { return copies(t, servers, long.key, 5) })
	must(t, long.Release(t.Context()))
	eventually(t, time.Second, func() error { return noKeys(servers, unguardedPrefix) })
}

// TestExtensionReachesEveryNode: also when it comes before the rest was told.
func TestExtensionReachesEveryNode(t *testing.T) {
	servers := testenv.Redis(t, 5)
	r := locker(t, clientsOf(servers), Config{Unguarded: true})
	h := take(t, r, "x")
	must(t, servers[0].Kill()) // two of the three copies are left
	must(t, h.Extend(t.Context()))
	eventually(t, time.Second, func() error { return copies(t, servers[1:], h.key, 4) })
	must(t, h.Release(t.Context()))
}

// TestRestIsAskedWhereItCounts: a divided majority is settled by the others; one
// that has refused is not.
func TestRestIsAskedWhereItCounts(t *testing.T) {
	for rivals, want := range map[int]error{1: nil, 2: nil, 3: ErrTaken} {
		t.Run(fmt.Sprint(rivals), func(t *testing.T) {
			servers := testenv.Redis(t, 5)
			r := locker(t, clientsOf(servers), Config{Unguarded: true})
			key := r.key("x")
			for _, s := range servers[:rivals] {
				must(t, s.Client().Set(t.Context(), key, valueOf(newToken(), "rival", 0), time.Minute).Err())
			}
			h, err := r.TryAcquire(t.Context(), "x")
			if !errors.Is(err, want) {
				t.Fatalf("acquire: %v, want %v", err, want)
			}
			if want == nil {
				eventually(t, time.Second, func() error { return copies(t, servers, key, 5) })
				must(t, h.Release(t.Context()))
			}
			eventually(t, time.Second, func() error { return copies(t, servers, key, rivals) })
		})
	}
}

// TestSilentNodeIsHedgedThenSpared: the rest is asked for a node that does not
// answer, and the next acquires do without it.
func TestSilentNodeIsHedgedThenSpared(t *testing.T) {
	servers := testenv.Redis(t, 5)
	r := locker(t, clientsOf(servers), Config{Unguarded: true, NodeTimeout: 2 * time.Second})
	must(t, take(t, r, "warm").Release(t.Context()))
	must(t, servers[1].Pause())
	defer servers[1].Resume()
	hedge := r.cfg.NodeTimeout / hedgeShare
	if took := quickest(1, func() { take(t, r, "hedged") }); took < hedge || took > r.cfg.NodeTimeout {
		t.Errorf("the first acquire took %v, want a little over %v", took, hedge)
	}
	if took := quickest(3, func() { must(t, take(t, r, "spared").Release(t.Context())) }); took > hedge/2 {
		t.Errorf("one beside the silent node took %v", took)
	}
	must(t, servers[1].Resume())
	eventually(t, 5*time.Second, func() error {
		h := take(t, r, "back")
		defer h.Release(context.Background())
		if !r.nodes[1].Prompt() {
			return errors.New("the node that answers again is still spared")
		}
		return nil
	})
}

// TestReleaseWhileTheRestIsAsked: whichever comes first, nothing is left.
func TestReleaseWhileTheRestIsAsked(t *testing.T) {
	servers := testenv.Redis(t, 5)
	r := locker(t, clientsOf(servers), Config{Unguarded: true})
	for i := range choose(2000, 300) {
		h := take(t, r, fmt.Sprint("x", i))
		go h.acquired.askRest()
		if i%2 == 0 {
			time.Sleep(time.Duration(i%7) * 20 * time.Microsecond)
		}
		must(t, h.Release(t.Context()))
	}
	eventually(t, 5*time.Second, func() error { return noKeys(servers, unguardedPrefix) })
}

// TestGuardedAsksEveryNode: nothing arbitrates these, so each node keeps them
// from the start.
func TestGuardedAsksEveryNode(t *testing.T) {
	servers := deploy(t, 5)
	h := take(t, locker(t, clientsOf(servers), Config{}), "x")
	if h.acquired.spares != 0 {
		t.Errorf("%d nodes were spared", h.acquired.spares)
	}
	eventually(t, time.Second, func() error { return copies(t, servers, h.key, 5) })
	must(t, h.Release(t.Context()))
}
