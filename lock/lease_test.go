package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

func TestL05_LapsedLease(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	lapse := func() *held {
		h := take(t, r, "x", WithTTL(150*time.Millisecond))
		h.freeze()
		<-h.Done()
		eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
		return h
	}
	h := lapse()
	wants(t, h.Extend(t.Context()), ErrLost)
	wants(t, h.Release(t.Context()), ErrLost)

	h = lapse()
	rival := take(t, r, "x")
	wants(t, h.Extend(t.Context()), ErrLost)
	wants(t, h.Release(t.Context()), ErrLost)
	must(t, rival.Extend(t.Context()))
	must(t, rival.Release(t.Context()))
}

// The nodes decide when the holder's own clock has not noticed.
func TestL05_NodesKnowBetter(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	for _, op := range []func(*held) error{
		func(h *held) error { return h.Extend(t.Context()) },
		func(h *held) error { return h.Release(t.Context()) },
	} {
		h := take(t, r, "x")
		for _, s := range servers {
			must(t, s.Client().Set(t.Context(), h.key, valueOf(newToken(), "rival", 0), 0).Err())
		}
		err := op(h)
		wants(t, err, ErrLost)
		var typed *Error
		if !errors.As(err, &typed) {
			t.Errorf("%T is no *Error", err)
		}
		if h.Context().Err() == nil {
			t.Error("the lease goes on")
		}
		for i, v := range holders(t, servers, h.key) {
			if v == "" {
				t.Errorf("node %d: another's lock was removed", i)
			}
			must(t, servers[i].Client().Del(t.Context(), h.key).Err())
		}
	}
}

func TestL06_RivalCameAndWent(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	h := take(t, r, "x")
	h.freeze()
	for _, s := range servers { // lapsed, and the holder has not noticed
		must(t, s.Client().Del(t.Context(), h.key).Err())
	}
	rival := take(t, r, "x")
	must(t, rival.Release(t.Context()))
	wants(t, h.Extend(t.Context()), ErrLost)
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) }) // the release's last node, and nothing came back
}

func TestL07_ReseedAfterRestart(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	h := take(t, r, "x")
	h.freeze()
	must(t, servers[0].Restart())
	must(t, h.Extend(t.Context()))
	eventually(t, time.Second, func() error {
		if v := holders(t, servers[:1], h.key)[0]; len(v) < tokenSize || v[:tokenSize] != h.token {
			return fmt.Errorf("the restarted node has %q", v)
		}
		return nil
	})
	must(t, h.Release(t.Context()))
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

// A majority that lost the lock is not re-seeded: the lease is lost.
func TestL07_NoReseedWithoutQuorum(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	h := take(t, r, "x")
	h.freeze()
	must(t, servers[0].Restart())
	must(t, servers[1].Restart())
	wants(t, h.Extend(t.Context()), ErrLost)
	if h.Context().Err() == nil {
		t.Error("the lease goes on")
	}
	eventually(t, 2*testMaxTTL, func() error { return noKeys(servers, guardedPrefix) })
}

func TestL14_CutOffFromAllNodes(t *testing.T) {
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	a, b := locker(t, clients, Config{}), locker(t, clientsOf(servers), Config{})
	h := take(t, a, "x", WithTTL(time.Second))
	time.Sleep(500 * time.Millisecond) // at least one renewal
	for _, p := range proxies {
		p.setHole(true)
	}
	valid := h.ValidUntil
	type moment struct{ ended, confirmed time.Time }
	lost := make(chan moment, 1)
	go func() {
		<-h.Done()
		lost <- moment{time.Now(), valid()}
	}()
	lease, err := b.Acquire(within(t, 10*time.Second), "x")
	held := time.Now()
	must(t, err)
	m := <-lost
	if !m.ended.Before(held) {
		t.Errorf("lost %v after a rival held", m.ended.Sub(held))
	}
	if late := m.ended.Sub(m.confirmed); late > 50*time.Millisecond {
		t.Errorf("lost %v after the last confirmed validity", late)
	}
	wants(t, context.Cause(h.Context()), ErrLost)
	must(t, lease.Release(t.Context()))
}

func TestL15_WaitsForALongHolder(t *testing.T) {
	servers := deploy(t, 3)
	a, b := locker(t, clientsOf(servers), Config{}), locker(t, clientsOf(servers), Config{})
	const hold = 3 * time.Second
	h := take(t, a, "x", WithTTL(time.Second))
	start := time.Now()
	time.AfterFunc(hold, func() { _ = h.Release(context.Background()) })
	lease, err := b.Acquire(within(t, 5*time.Second), "x", WithTTL(time.Second))
	must(t, err)
	if took := time.Since(start); took < hold || took > hold+300*time.Millisecond {
		t.Errorf("acquired after %v", took)
	}
	if left := time.Until(lease.ValidUntil()); left < 900*time.Millisecond {
		t.Errorf("only %v of the TTL left", left)
	}
	must(t, lease.Release(t.Context()))
}

func TestL16_RenewalDoesNotLiveOnTheAcquiresContext(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	const ttl = 500 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	lease, err := r.Acquire(ctx, "x", WithTTL(ttl))
	must(t, err)
	select {
	case <-lease.Done():
		t.Fatalf("lost: %v", context.Cause(lease.Context()))
	case <-time.After(3 * ttl):
	}
	must(t, lease.Release(t.Context()))
}

func TestL17_OneNodeErrsForAWhile(t *testing.T) {
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	r := locker(t, clients, Config{})
	const ttl = 900 * time.Millisecond
	h := take(t, r, "x", WithTTL(ttl), WithWarn(ttl/4, func(Lease) { t.Error("warned while a quorum answers") }))
	proxies[0].setCut(true)
	time.Sleep(ttl / 2)
	proxies[0].setCut(false)
	select {
	case <-h.Done():
		t.Fatalf("lost: %v", context.Cause(h.Context()))
	case <-time.After(2 * ttl):
	}
	must(t, h.Release(t.Context()))
}

// A majority that errs for less than the validity costs a warning at most.
func TestL17_MajorityErrsForAWhile(t *testing.T) {
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	r := locker(t, clients, Config{})
	const ttl = 1500 * time.Millisecond
	warned := make(chan struct{}, 10)
	h := take(t, r, "x", WithTTL(ttl), WithWarn(ttl/2-time.Millisecond, func(Lease) { warned <- struct{}{} }))
	for _, p := range proxies[:2] {
		p.setCut(true)
	}
	<-warned
	for _, p := range proxies[:2] {
		p.setCut(false)
	}
	select {
	case <-h.Done():
		t.Fatalf("lost: %v", context.Cause(h.Context()))
	case <-time.After(2 * ttl):
	}
	must(t, h.Release(t.Context()))
}

func TestL18_ManyLeasesRenewedAllTheTime(t *testing.T) {
	servers := deploy(t, 3)
	before := runtime.NumGoroutine()
	r := locker(t, clientsOf(servers), Config{})
	const callers = 16
	cycles := choose(100_000, 3_000) / callers
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range cycles {
				lease, err := r.TryAcquire(context.Background(), fmt.Sprintf("%d-%d", caller, i))
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				stop := renewEveryMillisecond(lease)
				if err := lease.Context().Err(); err != nil {
					t.Errorf("lost signal: %v", context.Cause(lease.Context()))
				}
				if err := lease.Release(context.Background()); err != nil {
					t.Errorf("release: %v", err)
				}
				stop()
			}
		})
	}
	all.Wait()
	eventually(t, 2*time.Second, func() error { return noKeys(servers, guardedPrefix) })
	must(t, r.Close())
	eventually(t, 2*time.Second, func() error {
		if n := runtime.NumGoroutine(); n > before+20 {
			return fmt.Errorf("%d goroutines, %d before", n, before)
		}
		return nil
	})
}

func renewEveryMillisecond(lease Lease) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if err := lease.Extend(context.Background()); errors.Is(err, ErrNotHeld) {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	return func() { <-done }
}

func TestL19_MaxHold(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{TTL: 500 * time.Millisecond, MaxHold: time.Second})
	start := time.Now()
	h := take(t, r, "x")
	<-h.Done()
	if took := time.Since(start); took < time.Second || took > 1200*time.Millisecond {
		t.Errorf("lost signal after %v", took)
	}
	wants(t, context.Cause(h.Context()), ErrLost)
	eventually(t, 500*time.Millisecond, func() error { return noKeys(servers, guardedPrefix) })
}

// TestLostSignalOfALateGrant: it comes at the end of the validity, also when most
// of the TTL had passed before the lock was had.
func TestLostSignalOfALateGrant(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	o := Options{TTL: time.Hour}
	c := r.acquireCall("x", newToken(), valueOf(newToken(), "me", 0), o.TTL)
	until := time.Now().Add(20 * time.Millisecond)
	h := r.hold(t.Context(), "x", newToken(), 1, o, c, until)
	select {
	case <-h.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("no signal 5 s after the end of the validity")
	}
	wants(t, context.Cause(h.Context()), ErrLost)
}

// TestEarlyLossKeepsRivalsOut: a lease that a renewal finds lost is over at once
// for its holder, but a holder that does not look relies on ValidUntil. The lock is
// on a bare majority, one of whose nodes then loses its memory.
func TestEarlyLossKeepsRivalsOut(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 5)
	r, other := locker(t, clientsOf(servers), Config{}), locker(t, clientsOf(servers), Config{})
	must(t, take(t, other, "warm").Release(t.Context()))
	h := take(t, r, "x")
	h.freeze()
	eventually(t, time.Second, func() error { return copies(t, servers, h.key, 5) })
	for _, s := range servers[3:] {
		must(t, s.Client().Del(t.Context(), h.key).Err())
	}
	must(t, servers[2].Client().FlushAll(t.Context()).Err())
	until := h.ValidUntil()
	wants(t, h.Extend(t.Context()), ErrLost)
	wants(t, context.Cause(h.Context()), ErrLost)
	lease, err := other.Acquire(within(t, 3*testMaxTTL), "x")
	must(t, err)
	if early := time.Until(until); early > 0 {
		t.Errorf("a rival held %v before the end of the validity", early)
	}
	must(t, lease.Release(t.Context()))
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

// TestLossOfAPartKeepsTheRest: as long as the validity lasts.
func TestLossOfAPartKeepsTheRest(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	m, err := TryAcquireAll(t.Context(), r, []string{"a", "b"})
	must(t, err)
	for _, s := range servers {
		must(t, s.Client().Del(t.Context(), r.key("a")).Err())
	}
	wants(t, m.Extend(t.Context()), ErrLost)
	<-m.Done()
	until := m.ValidUntil()
	lease, err := r.Acquire(within(t, 3*testMaxTTL), "b")
	must(t, err)
	if early := time.Until(until); early > 0 {
		t.Errorf("a rival held the other part %v before the end of the validity", early)
	}
	must(t, lease.Release(t.Context()))
}

func TestL20_ReplayedRelease(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	first := take(t, r, "x")
	must(t, first.Release(t.Context()))
	second := take(t, r, "x")
	must(t, first.Release(t.Context()))
	c := first.releaseCall() // once more, on the wire
	if err := c.decide(t.Context(), r.cfg.NodeTimeout); err == nil || c.outcome() != refused {
		t.Errorf("the replay: %v, %v", err, c.outcome())
	}
	for i, v := range holders(t, servers, second.key) {
		if len(v) < tokenSize || v[:tokenSize] != second.token {
			t.Errorf("node %d: %q", i, v)
		}
	}
	must(t, second.Extend(t.Context()))
	must(t, second.Release(t.Context()))
}

func TestL23_EverythingAtOnce(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	for i := range 20 {
		h := take(t, r, fmt.Sprint("x", i), WithTTL(300*time.Millisecond))
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _ = h.Extend(t.Context()) })
			all.Go(func() { _ = h.ValidUntil() })
			all.Go(func() { _ = h.Release(t.Context()) })
			all.Go(h.tick)
			all.Go(h.lose)
		}
		all.Wait()
		if err := h.Extend(t.Context()); !errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrLost) {
			t.Errorf("extend after the end: %v", err)
		}
	}
	eventually(t, 2*time.Second, func() error { return noKeys(servers, guardedPrefix) })
}
