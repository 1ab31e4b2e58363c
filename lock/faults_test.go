package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/testenv"
)

func TestL01_OneOfThreeStalled(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	must(t, take(t, r, "warm").Release(t.Context()))
	must(t, servers[1].Pause())
	defer servers[1].Resume()
	var acquire, extend, release time.Duration = time.Hour, time.Hour, time.Hour
	for i := range 4 {
		var h *held
		acquire = min(acquire, quickest(1, func() { h = take(t, r, fmt.Sprint("x", i)) }))
		extend = min(extend, quickest(1, func() { must(t, h.Extend(t.Context())) }))
		release = min(release, quickest(1, func() { must(t, h.Release(t.Context())) }))
	}
	for what, took := range map[string]time.Duration{"acquire": acquire, "extend": extend, "release": release} {
		if took > 50*time.Millisecond {
			t.Errorf("%s took %v with one node stalled", what, took)
		}
	}
}

func TestL02_AllStalledAndAContext(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	must(t, take(t, r, "warm").Release(t.Context()))
	for _, s := range servers {
		must(t, s.Pause())
		defer s.Resume()
	}
	took := quickest(3, func() {
		// A fresh locker would wait for its connections: that counts, too.
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err := r.TryAcquire(ctx, "x")
		wants(t, err, ErrNotAcquired)
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrNoQuorum) {
			t.Errorf("%v matches neither the context's error nor no quorum", err)
		}
	})
	if took > 60*time.Millisecond {
		t.Errorf("returned after %v", took)
	}
}

func TestL02_ContextErrorMatches(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{NodeTimeout: 5 * time.Second})
	must(t, take(t, r, "warm").Release(t.Context()))
	for _, s := range servers {
		must(t, s.Pause())
		defer s.Resume()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := r.TryAcquire(ctx, "x")
	wants(t, err, ErrNotAcquired, context.DeadlineExceeded)
	if errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrTaken) {
		t.Errorf("a caller that gave up says nothing about the quorum: %v", err)
	}
	for _, s := range servers {
		must(t, s.Resume())
	}
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

func TestL08_ExtendWhileANodeAnswersErrors(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{TTL: testMaxTTL})
	h := take(t, r, "x")
	h.freeze()
	must(t, servers[0].Client().Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
	time.Sleep(300 * time.Millisecond)
	must(t, h.Extend(t.Context()))
	for _, s := range servers[1:] {
		ttl, err := s.Client().PTTL(t.Context(), h.key).Result()
		must(t, err)
		if ttl < testMaxTTL-200*time.Millisecond {
			t.Errorf("TTL %v after the extension", ttl)
		}
	}
	must(t, servers[0].Client().Do(t.Context(), "REPLICAOF", "NO", "ONE").Err())
	must(t, h.Release(t.Context()))
}

func TestL09_CancelWithoutQuorum(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	must(t, take(t, r, "warm").Release(t.Context()))
	must(t, servers[0].Pause())
	must(t, servers[1].Pause())
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := r.TryAcquire(ctx, "x")
	wants(t, err, ErrNotAcquired, context.Canceled)
	must(t, servers[0].Resume())
	must(t, servers[1].Resume())
	// Not before a node has had the time to execute what it had received.
	for _, s := range servers[:2] {
		must(t, s.Client().Ping(t.Context()).Err())
	}
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

func TestL10_ReleaseOnACancelledContext(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	ctx, cancel := context.WithCancel(context.Background())
	lease, err := r.TryAcquire(ctx, "x")
	must(t, err)
	cancel()
	must(t, lease.Release(ctx))
	eventually(t, 100*time.Millisecond, func() error { return noKeys(servers, guardedPrefix) })
}

func TestL11_LosingTriesAgainstJitter(t *testing.T) {
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	r := locker(t, clients, Config{TTL: testMaxTTL})
	for _, p := range proxies {
		p.set(func(s *proxy) { s.jitter = 40 * time.Millisecond })
	}
	const tries, callers = 300, 10
	for i := range tries {
		for _, s := range servers[:2] { // a rival has the majority
			must(t, s.Client().Set(t.Context(), r.key(fmt.Sprint("x", i)), valueOf(newToken(), "rival", 0), 0).Err())
		}
	}
	var next atomic.Int32
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < tries; i = next.Add(1) - 1 {
				_, err := r.TryAcquire(context.Background(), fmt.Sprint("x", i), WithTTL(testMaxTTL))
				if !errors.Is(err, ErrTaken) {
					t.Errorf("try %d: %v, want ErrTaken", i, err)
				}
			}
		})
	}
	all.Wait()
	eventually(t, time.Second, func() error { return noKeys(servers[2:], guardedPrefix) })
}

func TestL12_StalledNodeUnderLoad(t *testing.T) {
	servers := deploy(t, 5)
	r := locker(t, clientsOf(servers), Config{})
	period := choose(60*time.Second, 2*time.Second)
	healthy := throughput(t, r, period/2)
	must(t, servers[3].Pause())
	eventually(t, 30*time.Second, func() error { // adaptation
		throughput(t, r, 100*time.Millisecond)
		if r.nodes[3].Down() == nil {
			return errors.New("the stalled node's breaker is closed")
		}
		return nil
	})
	before := runtime.NumGoroutine()
	stalled := throughput(t, r, period)
	eventually(t, 2*time.Second, func() error {
		if after := runtime.NumGoroutine(); after > before+20 {
			return fmt.Errorf("%d goroutines, %d at the beginning of the stall", after, before)
		}
		return nil
	})
	must(t, servers[3].Resume())
	t.Logf("healthy %.0f/s, one node stalled %.0f/s", healthy, stalled)
	// Seconds say nothing about throughput on a busy machine, but whoever
	// waited for the stalled node would get one cycle per deadline.
	if atLeast := choose(0.8*healthy, 2*loadCallers/r.cfg.NodeTimeout.Seconds()); stalled < atLeast {
		t.Errorf("%.0f cycles/s with a stalled node, %.0f without; want at least %.0f", stalled, healthy, atLeast)
	}
	eventually(t, 2*time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

// TestWhatANodeIsOwedIsKept: locks that were never sent to a node that is down
// leave nothing there to be cleaned up, and so do not displace a release that the
// node is owed.
func TestWhatANodeIsOwedIsKept(t *testing.T) {
	servers := testenv.Redis(t, 3)
	cfg := Config{TTL: time.Minute, MaxTTL: time.Minute, NodeTimeout: 300 * time.Millisecond}
	must(t, Init(t.Context(), clientsOf(servers), cfg))
	r := locker(t, clientsOf(servers), cfg)
	owed, err := r.TryAcquire(t.Context(), "owed")
	must(t, err)
	eventually(t, time.Second, func() error {
		if n := servers[2].Client().Exists(t.Context(), r.key("owed")).Val(); n != 1 {
			return errors.New("the third node has no such lock")
		}
		return nil
	})
	must(t, servers[2].Pause())
	must(t, r.Do(t.Context(), "any", func(context.Context) error { return nil })) // what comes now waits behind it
	must(t, owed.Release(t.Context()))
	eventually(t, 30*time.Second, func() error {
		_ = r.Do(t.Context(), "any", func(context.Context) error { return nil })
		return errorIf(r.nodes[2].Down() == nil, "its breaker is closed")
	})
	var cycles atomic.Int32
	var all sync.WaitGroup
	for i := range loadCallers {
		all.Go(func() {
			for n := cycles.Add(1); n <= 20_000; n = cycles.Add(1) { // more than a node is owed at most
				must(t, r.Do(t.Context(), fmt.Sprint("down ", i), func(context.Context) error { return nil }))
			}
		})
	}
	all.Wait()
	must(t, servers[2].Resume())
	eventually(t, 3*time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

func errorIf(wrong bool, text string) error {
	if wrong {
		return errors.New(text)
	}
	return nil
}

const loadCallers = 32

// throughput runs lock and unlock of distinct names for a while.
func throughput(t testing.TB, r *Redlock, d time.Duration) float64 {
	var cycles atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for caller := range loadCallers {
		all.Go(func() {
			for i := 0; time.Since(start) < d; i++ {
				lease, err := r.TryAcquire(context.Background(), fmt.Sprintf("load-%d-%d", caller, i))
				if err == nil {
					err = lease.Release(context.Background())
				}
				if err != nil {
					t.Errorf("under load: %v", err)
					return
				}
				cycles.Add(1)
			}
		})
	}
	all.Wait()
	return float64(cycles.Load()) / time.Since(start).Seconds()
}

func TestL22_LostSubscription(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	a, b := locker(t, clientsOf(servers), Config{}), locker(t, clientsOf(servers), Config{})
	h := take(t, a, "x")
	got := make(chan error, 1)
	go func() {
		lease, err := b.Acquire(within(t, 10*time.Second), "x")
		if err == nil {
			err = lease.Release(context.Background())
		}
		got <- err
	}()
	must(t, asked(b, "x"))
	for _, s := range servers {
		must(t, s.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	}
	start := time.Now()
	must(t, h.Release(t.Context()))
	must(t, <-got)
	if took := time.Since(start); took > longestPoll+500*time.Millisecond {
		t.Errorf("the waiter held %v after the release", took)
	}
}
