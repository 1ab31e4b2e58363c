package lock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/testenv"
)

func TestL13_VoterRestartedEmpty(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	a, b := locker(t, clients, Config{TTL: testMaxTTL}), locker(t, clientsOf(servers), Config{TTL: testMaxTTL})
	proxies[2].setCut(true) // nodes 0 and 1 vote
	h := take(t, a, "x")
	h.freeze()
	if v := holders(t, servers, h.key); v[0] == "" || v[1] == "" || v[2] != "" {
		t.Fatalf("not the votes that the test wants: %q", v)
	}
	must(t, servers[1].Kill())
	must(t, servers[1].Restart())
	for tries := 0; ; tries++ {
		lease, err := b.TryAcquire(t.Context(), "x")
		if err == nil {
			if now := time.Now(); now.Before(h.ValidUntil()) {
				t.Errorf("a rival held %v before the first lease had ended", h.ValidUntil().Sub(now))
			}
			if tries == 0 {
				t.Error("the rival met no refusal")
			}
			must(t, lease.Release(t.Context()))
			return
		}
		if time.Now().After(h.ValidUntil().Add(2 * testMaxTTL)) {
			t.Fatalf("still refused long after the first lease had ended: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestL21_FencesOverAllQuorums(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	lockers := make([]*Redlock, 3)
	for down := range proxies { // one locker per quorum: {1,2}, {0,2}, {0,1}
		for i, p := range proxies {
			p.setCut(i == down)
		}
		lockers[down] = locker(t, clients, Config{})
		must(t, take(t, lockers[down], "warm").Release(t.Context()))
	}
	var last int64
	for round := range 30 {
		down := round % 3
		for i, p := range proxies {
			p.setCut(i == down)
		}
		var lease Lease
		eventually(t, 5*time.Second, func() (err error) {
			lease, err = lockers[round%2].TryAcquire(t.Context(), "x")
			return err
		})
		if lease.Fence() <= last {
			t.Fatalf("fence %d after %d, node %d down", lease.Fence(), last, down)
		}
		last = lease.Fence()
		must(t, lease.Release(t.Context()))
	}
}

func TestL27_MaxTTL(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	_, err := r.TryAcquire(t.Context(), "x", WithTTL(testMaxTTL+time.Millisecond))
	wants(t, err, ErrNotAcquired)
	if err == nil || !strings.Contains(err.Error(), testMaxTTL.String()) {
		t.Errorf("a TTL above MaxTTL: %v", err)
	}
	_, err = New(t.Context(), clientsOf(servers), Config{MaxTTL: 3 * time.Second})
	if err == nil || !strings.Contains(err.Error(), "3s") || !strings.Contains(err.Error(), testMaxTTL.String()) {
		t.Errorf("another MaxTTL than the deployment's: %v; want both values named", err)
	}
}

// A locker that could not compare MaxTTL at its start does so when the nodes
// come back.
func TestL27_MaxTTLComparedLate(t *testing.T) {
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	for _, p := range proxies {
		p.setCut(true)
	}
	r, err := New(t.Context(), clients, Config{MaxTTL: 3 * time.Second, TTL: time.Second})
	must(t, err)
	defer r.Close()
	for _, p := range proxies {
		p.setCut(false)
	}
	eventually(t, 5*time.Second, func() error {
		lease, err := r.TryAcquire(t.Context(), "x")
		if err == nil {
			t.Fatalf("granted: %v", lease)
		}
		if !strings.Contains(err.Error(), "MaxTTL: 3s here, 2s on the node") {
			return err
		}
		return nil
	})
}

func TestL28_RestartedEmpty(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	guarded := locker(t, clientsOf(servers), Config{})
	engine := locker(t, clientsOf(servers), Config{Unguarded: true})
	must(t, take(t, guarded, "x").Release(t.Context()))
	must(t, take(t, engine, "x").Release(t.Context()))
	for _, s := range servers[:2] {
		must(t, s.Restart())
	}
	start := time.Now()
	eventually(t, 3*time.Second, func() error { return engine.Probe(t.Context()) })

	_, err := guarded.TryAcquire(t.Context(), "x")
	if err == nil {
		t.Fatalf("the stand-alone lock was granted at once, MaxTTL is %v", testMaxTTL)
	}
	wants(t, err, ErrNotAcquired, ErrNoQuorum)
	var why *GuardError
	if !errors.As(err, &why) || why.Until.IsZero() {
		t.Errorf("%v does not say which nodes vote again when", err)
	}
	lease, err := guarded.Acquire(within(t, 3*testMaxTTL), "x")
	must(t, err)
	if took := time.Since(start); took < testMaxTTL-100*time.Millisecond {
		t.Errorf("the stand-alone lock was granted after %v, MaxTTL is %v", took, testMaxTTL)
	}
	must(t, lease.Release(t.Context()))
}

// Without Init the first acquire waits, and one that does not wait says so.
func TestGuardWithoutInit(t *testing.T) {
	t.Parallel()
	servers := testenv.Redis(t, 3)
	r := locker(t, clientsOf(servers), Config{MaxTTL: 500 * time.Millisecond})
	start := time.Now()
	_, err := r.TryAcquire(t.Context(), "x")
	var why *GuardError
	if !errors.As(err, &why) {
		t.Errorf("without Init: %v", err)
	}
	lease, err := r.Acquire(within(t, 10*time.Second), "x")
	must(t, err)
	if took := time.Since(start); took < 400*time.Millisecond {
		t.Errorf("granted after %v", took)
	}
	must(t, lease.Release(t.Context()))
}

func TestInitRefuses(t *testing.T) {
	servers := testenv.Redis(t, 3)
	clients := clientsOf(servers)
	if err := Init(t.Context(), clients[:2]); err == nil || !strings.Contains(err.Error(), "even") {
		t.Errorf("an even number of nodes: %v", err)
	}
	must(t, servers[1].Kill())
	if err := Init(within(t, time.Second), clients); err == nil || !strings.Contains(err.Error(), "node 1") {
		t.Errorf("a node that does not answer: %v", err)
	}
	if n, err := servers[0].Client().Exists(t.Context(), markerKey).Result(); err != nil || n != 0 {
		t.Errorf("an Init that failed has begun a node: %d, %v", n, err)
	}
	must(t, servers[1].Restart())
	must(t, Init(t.Context(), clients))
	if err := Init(t.Context(), clients); !errors.Is(err, errBegun) || !strings.Contains(err.Error(), "it votes") {
		t.Errorf("a second Init: %v", err)
	}
	must(t, clients[2].FlushAll(t.Context()).Err())
	r, err := New(t.Context(), clients, Config{}) // puts the node under guard
	must(t, err)
	must(t, r.Close())
	err = Init(t.Context(), clients)
	if match := regexp.MustCompile(`node 2: begun before; it needs no Init: it is under guard and votes again in (5\d|60)[.\d]*s`); !match.MatchString(fmt.Sprint(err)) {
		t.Errorf("an Init of a node under guard: %v", err)
	}
}

// FLUSHALL does not break a connection; the marker goes with the locks.
func TestFlushedNodeDoesNotVote(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	must(t, take(t, r, "x").Release(t.Context()))
	for _, s := range servers[:2] {
		must(t, s.Client().FlushAll(t.Context()).Err())
	}
	_, err := r.TryAcquire(t.Context(), "x")
	wants(t, err, ErrNoQuorum)
	var why *GuardError
	if !errors.As(err, &why) {
		t.Errorf("%v", err)
	}
	lease, err := r.Acquire(within(t, 3*testMaxTTL), "x")
	must(t, err)
	must(t, lease.Release(t.Context()))
}

// A flushed node that has rejoined may count behind what this process has seen
// of it before: what was seen must be forgotten.
func TestRejoinedNodeIsReadAnew(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	other := locker(t, clientsOf(servers), Config{})
	must(t, take(t, r, "x").Release(t.Context()))
	raise(&r.guard.standing[0].counter, 1_000_000) // as if node 0 had been far ahead
	must(t, servers[0].Client().FlushAll(t.Context()).Err())
	// Another process brings the node back, unnoticed by the first.
	eventually(t, 4*testMaxTTL, func() error {
		lease, err := other.TryAcquire(t.Context(), "y")
		if err != nil {
			return err
		}
		must(t, lease.Release(t.Context()))
		marker, err := servers[0].Client().Get(t.Context(), markerKey).Result()
		if err == nil && !strings.HasPrefix(marker, "ok ") {
			err = errors.New(marker)
		}
		return err
	})
	must(t, take(t, r, "x").Release(t.Context()))
	eventually(t, time.Second, func() error {
		if n := r.guard.standing[0].counter.Load(); n >= 1_000_000 {
			return fmt.Errorf("still believed to have counted to %d", n)
		}
		return nil
	})
}

// A node behind two names would vote twice.
func TestSameServerTwice(t *testing.T) {
	servers := testenv.Redis(t, 2)
	alias := newProxy(t, servers[0].Addr())
	clients := append(clientsOf(servers), alias.client)
	_, err := New(t.Context(), clients, Config{NodeTimeout: time.Second})
	if err == nil || !strings.Contains(err.Error(), "the same server as node") {
		t.Errorf("%v does not name the double", err)
	}
	found := fmt.Sprint(Check(t.Context(), clients))
	if !strings.Contains(found, "same server") {
		t.Errorf("Check: %s", found)
	}
}

func TestEnoughToRejoin(t *testing.T) {
	for _, c := range []struct {
		n, good, bad int
		want         bool
	}{
		{1, 0, 0, true},
		{3, 2, 0, true}, {3, 1, 0, false}, {3, 0, 0, false}, {3, 1, 1, true}, {3, 0, 2, true},
		{5, 3, 0, true}, {5, 2, 1, false}, {5, 3, 1, true}, {5, 2, 2, true}, {5, 2, 0, false},
	} {
		if got := enough(c.n, c.good, c.bad); got != c.want {
			t.Errorf("enough(%d nodes, %d good, %d bad) = %v", c.n, c.good, c.bad, got)
		}
	}
}

func TestL26_CleanUpNamesItsTry(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	r, rival := locker(t, clients, Config{}), locker(t, clientsOf(servers), Config{})
	must(t, take(t, r, "warm").Release(t.Context()))
	theirs := take(t, rival, "x")
	must(t, servers[0].Client().Del(t.Context(), theirs.key).Err())
	// Try 1 loses at nodes 1 and 2 while its SET for node 0 is on its way.
	proxies[0].set(func(s *proxy) { s.delay = 100 * time.Millisecond })
	_, err := r.TryAcquire(t.Context(), "x")
	wants(t, err, ErrTaken)
	must(t, theirs.Release(t.Context()))
	// Try 2 wins; whatever comes late for try 1 leaves it alone.
	second := take(t, r, "x")
	proxies[0].set(func(s *proxy) { s.delay = 0 })
	r.clean(r.nodes[0], second.key, newToken(), true)
	mine := func() error {
		have := 0
		for _, v := range holders(t, servers, second.key) {
			if strings.HasPrefix(v, second.token) {
				have++
			}
		}
		if have < 2 {
			return fmt.Errorf("try 2 has %d nodes", have)
		}
		return nil
	}
	deadline := time.Now().Add(time.Second)
	for time.Now().Before(deadline) {
		must(t, mine())
		if lease, err := rival.TryAcquire(context.Background(), "x"); err == nil {
			t.Fatalf("a second holder with fence %d", lease.Fence())
		}
	}
	must(t, second.Release(t.Context()))
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}
