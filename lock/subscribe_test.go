package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/testenv"
)

// refusedBy returns how r is refused a name that somebody else holds.
func refusedBy(t *testing.T, r *Redlock, name string) error {
	t.Helper()
	_, err := r.TryAcquire(t.Context(), name)
	wants(t, err, ErrTaken)
	return err
}

func expectHint(t *testing.T, hint <-chan struct{}, want bool) {
	t.Helper()
	patience := 100 * time.Millisecond
	if want {
		patience = 5 * time.Second
	}
	select {
	case <-hint:
		if !want {
			t.Fatal("a hint for nothing")
		}
	case <-time.After(patience):
		if want {
			t.Fatal("no hint")
		}
	}
}

// askedAt waits until one node has said that it will tell.
func askedAt(t *testing.T, r *Redlock, name string) {
	t.Helper()
	eventually(t, 5*time.Second, func() error {
		r.subscriber.mu.Lock()
		defer r.subscriber.mu.Unlock()
		if t := r.subscriber.topics[r.key(name)]; t == nil || t.acked == 0 {
			return fmt.Errorf("nobody was asked")
		}
		return nil
	})
}

// TestWatchOnce: the release is told by the node that refused, and a release that
// came before the question is noticed.
func TestWatchOnce(t *testing.T) {
	servers := testenv.Redis(t, 5)
	a, b := locker(t, clientsOf(servers), Config{Unguarded: true}), locker(t, clientsOf(servers), Config{Unguarded: true})
	h := take(t, a, "x")
	refused := refusedBy(t, b, "x")
	hint, stop := b.WatchOnce("x", refused)
	askedAt(t, b, "x")
	expectHint(t, hint, false)
	must(t, h.Release(t.Context()))
	expectHint(t, hint, true)
	late, stopLate := b.WatchOnce("x", refused) // it is free by now, and the first has not gone yet
	defer stopLate()
	expectHint(t, late, true)
	stop()
}

// TestLoserTells: when rivals divide the nodes, nobody holds the lock, and the
// losers tell who was refused because of them.
func TestLoserTells(t *testing.T) {
	servers := testenv.Redis(t, 5)
	a, b := locker(t, clientsOf(servers), Config{Unguarded: true}), locker(t, clientsOf(servers), Config{Unguarded: true})
	home, loser := node.Home("x", 5), newToken()
	for i := range 3 {
		value := valueOf(loser, "a", 0)
		if i > 0 {
			value = valueOf(newToken(), "another", 0)
		}
		must(t, servers[(home+i)%5].Client().Set(t.Context(), b.key("x"), value, time.Minute).Err())
	}
	hint, stop := b.WatchOnce("x", refusedBy(t, b, "x"))
	defer stop()
	askedAt(t, b, "x")
	a.clean(a.nodes[home], a.key("x"), loser, false)
	expectHint(t, hint, true)
}

// TestWatchLasts: a watcher that goes on hears of the release after the next.
func TestWatchLasts(t *testing.T) {
	servers := deploy(t, 3)
	a, b := locker(t, clientsOf(servers), Config{}), locker(t, clientsOf(servers), Config{})
	h := take(t, a, "x")
	hint, stop := b.Watch("x")
	defer stop()
	must(t, asked(b, "x"))
	for range 3 {
		expectHint(t, hint, false)
		must(t, h.Release(t.Context()))
		expectHint(t, hint, true)
		h = take(t, a, "x")
	}
	must(t, h.Release(t.Context()))
}

// TestHomeOfALock: the copies of a lock begin at its name's home, so that the
// nodes share the load.
func TestHomeOfALock(t *testing.T) {
	servers := testenv.Redis(t, 5)
	r := locker(t, clientsOf(servers), Config{Unguarded: true})
	for i := range 20 {
		h := take(t, r, fmt.Sprint("x", i))
		home := node.Home(h.name, 5)
		for k := range 3 {
			if n := servers[(home+k)%5].Client().Exists(t.Context(), h.key).Val(); n != 1 {
				t.Errorf("%s: no copy at node %d of its majority", h.name, k)
			}
		}
		must(t, h.Release(t.Context()))
	}
}

// TestReleaseWithoutWakeUps: what keeps a node from telling does not make the
// release fail.
func TestReleaseWithoutWakeUps(t *testing.T) {
	servers := testenv.Redis(t, 1)
	r := locker(t, clientsOf(servers), Config{Unguarded: true})
	h := take(t, r, "x")
	must(t, servers[0].Client().Set(t.Context(), askedKey(h.key), "not a set", 0).Err())
	must(t, h.Release(t.Context()))
	h = take(t, r, "x")
	must(t, servers[0].Client().Del(t.Context(), askedKey(h.key)).Err())
	must(t, servers[0].Client().SAdd(t.Context(), askedKey(h.key), "someone").Err())
	must(t, servers[0].Client().Do(t.Context(), "acl", "setuser", "default", "-publish", "-sadd").Err())
	must(t, h.Release(t.Context()))
}
