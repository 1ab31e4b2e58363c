package lock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestFenceIsReachedWhereItsLockIs: a node that has granted a slow rival its part
// of a majority early counts for nothing, however far its counter gets later: the
// rival's fence may come from before.
func TestFenceIsReachedWhereItsLockIs(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	links1, clients1 := links(t, servers)
	links2, clients2 := links(t, servers)
	first := locker(t, clients1, Config{NodeTimeout: testMaxTTL})
	rival := locker(t, clients2, Config{NodeTimeout: testMaxTTL})
	for i, counter := range []int{50, 40, 45} {
		must(t, servers[i].Client().Set(t.Context(), counterKey, counter, 0).Err())
	}
	for _, p := range links1[:2] {
		p.set(func(p *proxy) { p.delay = 150 * time.Millisecond })
	}
	links2[0].setHole(true)
	links2[1].set(func(p *proxy) { p.delay = 900 * time.Millisecond })

	rivals := make(chan Lease, 1)
	go func() {
		defer close(rivals)
		if lease, err := rival.TryAcquire(within(t, 10*time.Second), "x"); err == nil {
			rivals <- lease
		}
	}()
	eventually(t, time.Second, func() error { return copies(t, servers[2:], rival.key("x"), 1) })

	// The counter of node 2 moves on, and the first locker learns it from another
	// lock while its own is on the way to nodes 0 and 1.
	must(t, servers[2].Client().Set(t.Context(), counterKey, 60, 0).Err())
	for _, s := range servers[:2] {
		must(t, s.Client().SetArgs(t.Context(), first.key("y"), valueOf(newToken(), "else", 0), redis.SetArgs{TTL: testMaxTTL}).Err())
	}
	elsewhere := make(chan struct{})
	go func() {
		defer close(elsewhere)
		time.Sleep(50 * time.Millisecond)
		_, _ = first.TryAcquire(within(t, 10*time.Second), "y") // refused, but not by node 2
	}()
	h := take(t, first, "x")
	must(t, h.Release(t.Context()))
	<-elsewhere

	lease, ok := <-rivals
	if !ok {
		t.Fatal("the rival was refused: not what the test wants")
	}
	if lease.Fence() <= h.Fence() {
		t.Errorf("fence %d after %d", lease.Fence(), h.Fence())
	}
}

// TestFenceOfAllServesEach: the fence of several names is the largest, and a
// later lease of any of them has a larger one, whoever is slow.
func TestFenceOfAllServesEach(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	first, rival := locker(t, clientsOf(servers), Config{}), locker(t, clients, Config{NodeTimeout: testMaxTTL})
	proxies[0].setHole(true)
	proxies[1].set(func(p *proxy) { p.delay = 900 * time.Millisecond })

	rivals := make(chan Lease, 1)
	go func() {
		defer close(rivals)
		if lease, err := rival.TryAcquire(within(t, 10*time.Second), "x"); err == nil {
			rivals <- lease
		}
	}()
	eventually(t, time.Second, func() error { return copies(t, servers[2:], rival.key("x"), 1) })

	// The others get x from nodes 0 and 1, and y from 0 and 2, which counts far more.
	must(t, servers[2].Client().Set(t.Context(), counterKey, 60, 0).Err())
	must(t, servers[1].Client().SetArgs(t.Context(), first.key("y"), valueOf(newToken(), "else", 0), redis.SetArgs{TTL: testMaxTTL}).Err())
	both, err := TryAcquireAll(t.Context(), first, []string{"x", "y"})
	must(t, err)
	must(t, both.Release(t.Context()))
	if both.Fence() <= 60 {
		t.Fatalf("fence %d: not what the test wants", both.Fence())
	}

	lease, ok := <-rivals
	if !ok {
		t.Fatal("the rival was refused: not what the test wants")
	}
	if lease.Fence() <= both.Fence() {
		t.Errorf("fence %d after %d", lease.Fence(), both.Fence())
	}
}
