package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

func TestInspect(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{Owner: "me"})
	s, err := r.Inspect(t.Context(), "x")
	must(t, err)
	if s.Held || s.Owner != "" || len(s.Votes) != 3 {
		t.Errorf("nobody holds it: %+v", s)
	}
	h := take(t, r, "x")
	must(t, h.Extend(t.Context()))
	must(t, servers[2].Client().Set(t.Context(), h.key, valueOf(newToken(), "stray", 0), time.Minute).Err())
	s, err = r.Inspect(t.Context(), "x")
	must(t, err)
	if !s.Held || s.Owner != "me" || s.Fence != h.Fence() || s.Remaining <= 0 || s.Votes[2].Owner != "stray" {
		t.Errorf("%+v, fence %d", s, h.Fence())
	}
	must(t, servers[0].Kill())
	must(t, servers[1].Kill())
	s, err = r.Inspect(t.Context(), "x")
	wants(t, err, ErrNoQuorum)
	if s.Votes[0].Err == nil || s.Votes[2].Owner != "stray" {
		t.Errorf("what was heard: %+v", s)
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{Prefix: "odd[*]:"})
	want := map[string]bool{}
	for i := range 250 {
		name := fmt.Sprintf("n-%d}{:l", i)
		want[name] = true
		must(t, servers[i%3].Client().Set(t.Context(), r.key(name), valueOf(newToken(), "o", 0), time.Minute).Err())
		must(t, servers[(i+1)%3].Client().Set(t.Context(), r.key(name), valueOf(newToken(), "o", 0), time.Minute).Err())
		must(t, servers[0].Client().Set(t.Context(), fmt.Sprintf("oddX:{other-%d}:l", i), "v", time.Minute).Err())
	}
	got := map[string]bool{}
	pages := 0
	for cursor := ""; ; pages++ {
		page, err := r.List(t.Context(), cursor, 50)
		must(t, err)
		for _, name := range page.Names {
			got[name] = true
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(got) != len(want) || pages < 3 {
		t.Errorf("%d names in %d pages, want %d", len(got), pages, len(want))
	}
	must(t, servers[1].Kill())
	page, err := r.List(t.Context(), "", listMost)
	must(t, err)
	if len(page.Names) != 250 || len(page.Skipped) != 1 || page.Skipped[0].Index != 1 {
		t.Errorf("%d names, skipped %v", len(page.Names), page.Skipped)
	}
	for _, cursor := range []string{"x", "-1:0", "9:0", "0:x"} {
		if _, err := r.List(t.Context(), cursor, 10); err == nil {
			t.Errorf("cursor %q accepted", cursor)
		}
	}
}

func TestBreak(t *testing.T) {
	servers := deploy(t, 3)
	var events recorder
	r := locker(t, clientsOf(servers), Config{Owner: "me", Observer: &events})
	_, err := r.Break(t.Context(), "x", "nobody")
	wants(t, err, ErrNotHeld)
	h := take(t, r, "x")
	s, err := r.Break(t.Context(), "x", "operator")
	must(t, err)
	if s.Owner != "me" {
		t.Errorf("broken: %+v", s)
	}
	broken := eventsOf[observe.LockBroken](&events)
	if len(broken) != 1 || broken[0].By != "operator" || broken[0].Owner != "me" || !broken[0].Confirmed {
		t.Errorf("audit: %+v", broken)
	}
	rival := take(t, r, "x")
	wants(t, h.Extend(t.Context()), ErrLost)
	if h.Context().Err() == nil {
		t.Error("the former holder goes on after its renewal was refused")
	}
	must(t, rival.Extend(t.Context()))
	must(t, rival.Release(t.Context()))
	if got, lost := eventsOf[observe.LockAcquired](&events), eventsOf[observe.LockLost](&events); len(got) != 2 || len(lost) != 1 {
		t.Errorf("%d acquired, %d lost", len(got), len(lost))
	}
}

// waitFor starts waiters one after the other, each only once the one before is
// in line, and returns the order in which they were served.
func waitFor(t *testing.T, hold Lease, waiters []*Redlock, inLine func(n int) error, opts ...Option) []int {
	t.Helper()
	served := make(chan int, len(waiters))
	var all sync.WaitGroup
	for i, w := range waiters {
		all.Go(func() {
			lease, err := w.Acquire(within(t, 20*time.Second), hold.Name(), opts...)
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
				return
			}
			served <- i
			if err := lease.Release(context.Background()); err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
		eventually(t, 5*time.Second, func() error { return inLine(i + 1) })
	}
	must(t, hold.Release(t.Context()))
	all.Wait()
	close(served)
	var order []int
	for i := range served {
		order = append(order, i)
	}
	return order
}

func TestFIFOInOneProcess(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	h := take(t, r, "x")
	order := waitFor(t, h, slices.Repeat([]*Redlock{r}, 10), func(n int) error {
		r.queues.mu.Lock()
		defer r.queues.mu.Unlock()
		if l := r.queues.lines["x"]; l == nil || len(l.turns) != n {
			return errors.New("not in line")
		}
		return nil
	})
	if !slices.IsSorted(order) || len(order) != 10 {
		t.Errorf("served in the order %v", order)
	}
	if len(r.queues.lines) != 0 {
		t.Errorf("lines left: %v", r.queues.lines)
	}
}

func TestFairAcrossProcesses(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	var lockers []*Redlock
	for range 6 {
		lockers = append(lockers, locker(t, clientsOf(servers), Config{}))
	}
	h := take(t, lockers[0], "x")
	line := lockers[0].newPlace("x").keys[0]
	inLine := func(n int) error {
		for _, s := range servers {
			if k, err := s.Client().ZCard(t.Context(), line).Result(); err != nil || k != int64(n) {
				return fmt.Errorf("%d in line: %w", k, err)
			}
		}
		time.Sleep(2 * time.Millisecond) // places are by the millisecond
		return nil
	}
	order := waitFor(t, h, lockers[1:], inLine, WithFair())
	if !slices.IsSorted(order) || len(order) != 5 {
		t.Errorf("served in the order %v", order)
	}
	eventually(t, 2*time.Second, func() error { return inLine(0) })
}

// One connection and one channel per node, whatever the number of waiters.
func TestOneSubscriptionConnectionPerNode(t *testing.T) {
	servers := deploy(t, 3)
	a, b := locker(t, clientsOf(servers), Config{}), locker(t, clientsOf(servers), Config{})
	before := 0
	var all sync.WaitGroup
	for i := range 30 {
		h := take(t, a, fmt.Sprint("x", i))
		all.Go(func() {
			lease, err := b.Acquire(within(t, 20*time.Second), h.name)
			if err == nil {
				err = lease.Release(context.Background())
			}
			if err != nil {
				t.Error(err)
			}
		})
		if i == 0 {
			must(t, asked(b, h.name))
			before = runtime.NumGoroutine()
		}
		defer func() { _ = h.Release(context.Background()) }()
	}
	for i := range 30 {
		must(t, asked(b, fmt.Sprint("x", i)))
	}
	for _, s := range servers {
		must(t, subscriptions(s.Client(), b, 1))
		list, err := s.Client().Do(t.Context(), "CLIENT", "LIST", "TYPE", "pubsub").Text()
		must(t, err)
		if n := strings.Count(list, "\n"); n != 1 {
			t.Errorf("%d subscription connections", n)
		}
	}
	if after := runtime.NumGoroutine(); after > before+3*29 {
		t.Errorf("%d goroutines for 30 waiters, %d for one", after, before)
	}
	for i := range 30 {
		_, err := a.Break(t.Context(), fmt.Sprint("x", i), "test")
		must(t, err)
	}
	all.Wait()
	eventually(t, 5*time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

func subscriptions(client *redis.Client, r *Redlock, want int) error {
	channels, err := client.PubSubChannels(context.Background(), r.cfg.Prefix+"*").Result()
	if err == nil && len(channels) != want {
		err = fmt.Errorf("%d subscriptions, want %d", len(channels), want)
	}
	return err
}

func TestElectionIsObserved(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	a, b := locker(t, clientsOf(servers), Config{Owner: "a"}), locker(t, clientsOf(servers), Config{Owner: "b"})
	ctx, cancel := context.WithCancel(within(t, 20*time.Second))
	leaders, err := NewElection(b, "e").Observe(ctx)
	must(t, err)
	if l := <-leaders; l != (Leader{}) {
		t.Errorf("before the first term: %+v", l)
	}
	var last int64
	for _, candidate := range []*Redlock{a, b, a} {
		term, err := NewElection(candidate, "e").Campaign(ctx)
		must(t, err)
		if term.Number() <= last {
			t.Errorf("term %d after %d", term.Number(), last)
		}
		last = term.Number()
		for l := range leaders { // the number follows with the first renewal
			if l == (Leader{Owner: candidate.cfg.Owner, Term: term.Number()}) {
				break
			}
			if l.Owner != candidate.cfg.Owner && l.Owner != "" {
				t.Errorf("leader %+v", l)
			}
		}
		must(t, term.Resign(ctx))
		if term.Context().Err() == nil {
			t.Error("the term goes on after the resignation")
		}
	}
	cancel()
	for range leaders { //nolint:revive // drained until it is closed
	}
	if _, err := NewElection(NewMemory(), "e").Observe(t.Context()); !errors.Is(err, ErrCannotObserve) {
		t.Errorf("%v", err)
	}
}

func TestLosingOnePartLosesAll(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	lease, err := TryAcquireAll(t.Context(), r, []string{"b", "a", "c"})
	must(t, err)
	if lease.Name() != "a,b,c" || lease.Fence() == 0 || time.Until(lease.ValidUntil()) <= 0 {
		t.Errorf("%s, fence %d, valid until %v", lease.Name(), lease.Fence(), lease.ValidUntil())
	}
	_, err = r.Break(t.Context(), "b", "test")
	must(t, err)
	wants(t, lease.Extend(t.Context()), ErrLost)
	<-lease.Done()
	wants(t, context.Cause(lease.Context()), ErrLost)
	wants(t, lease.Release(t.Context()), ErrLost)
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
	if _, err := AcquireAll(t.Context(), r, nil); !errors.Is(err, ErrNotAcquired) {
		t.Errorf("no names: %v", err)
	}
}

func TestOverloadIsNotNoQuorum(t *testing.T) {
	servers := deploy(t, 3)
	clients := make([]redis.UniversalClient, 3)
	for i, s := range servers {
		c := redis.NewClient(&redis.Options{Addr: s.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1,
			PoolSize: 1, MaxActiveConns: 1, PoolTimeout: 10 * time.Millisecond})
		defer c.Close()
		clients[i] = c
		if i > 0 {
			keep := c.Conn()
			defer keep.Close()
			must(t, keep.Ping(t.Context()).Err())
		}
	}
	r := locker(t, clients, Config{Unguarded: true})
	_, err := r.TryAcquire(t.Context(), "x")
	wants(t, err, ErrNotAcquired, ErrOverloaded)
	if errors.Is(err, ErrNoQuorum) {
		t.Errorf("a full pool counts as no quorum: %v", err)
	}
}

func TestSharedSet(t *testing.T) {
	servers := deploy(t, 3)
	set, err := node.NewSet(clientsOf(servers), node.Config{Scripts: Scripts()})
	must(t, err)
	defer set.Close()
	if _, err := NewOn(set, Config{}); err == nil || !strings.Contains(err.Error(), "Unguarded") {
		t.Errorf("a guarded lock on a shared set: %v", err)
	}
	r, err := NewOn(set, Config{Unguarded: true})
	must(t, err)
	must(t, r.Probe(t.Context()))
	lease, err := r.TryAcquire(t.Context(), strings.Repeat("ab", 32))
	must(t, err)
	if n, err := servers[0].Client().Exists(t.Context(), "rf1:{"+lease.Name()+"}:l").Result(); err != nil || n != 1 {
		t.Errorf("the key in Redis: %d, %v", n, err)
	}
	ReleaseLater(lease)
	eventually(t, time.Second, func() error { return noKeys(servers, unguardedPrefix) })
	must(t, r.Close())
	_, err = set.Nodes()[0].Do(t.Context(), "PING")
	must(t, err)
}

func TestClosedLocker(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	h := take(t, r, "x", WithTTL(200*time.Millisecond))
	must(t, r.Close())
	must(t, r.Close())
	_, err := r.Acquire(within(t, 5*time.Second), "y")
	wants(t, err, ErrNotAcquired, ErrClosed)
	<-h.Done() // no longer renewed
	wants(t, context.Cause(h.Context()), ErrLost)
}

func TestDoEndsWithTheCallersContext(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	ctx, cancel := context.WithCancel(context.Background())
	err := r.Do(ctx, "x", func(inner context.Context) error {
		cancel()
		<-inner.Done()
		return context.Cause(inner)
	})
	wants(t, err, context.Canceled)
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
	func() {
		defer func() { _ = recover() }()
		_ = r.Do(context.Background(), "x", func(context.Context) error { panic("p") })
	}()
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

func TestErrorTexts(t *testing.T) {
	long := strings.Repeat("n", 1000)
	for _, e := range []*Error{
		{Op: opAcquire, Name: long, Reason: ErrTaken, Holder: long, Remaining: time.Second},
		{Op: opAcquire, Name: "a\nb", Reason: ErrNoQuorum, Ctx: context.Canceled,
			Nodes: []NodeError{{Node: "h:1", Err: errNoAnswer}, {Node: "h:2", Index: 1, Err: &GuardError{Reason: "it lost its memory"}}}},
		{Op: opExtend, Name: "x", Reason: ErrLost},
	} {
		text := e.Error()
		if strings.Contains(text, "\n") || len(text) > 400 {
			t.Errorf("%q", text)
		}
		if errors.Is(e, ErrNotAcquired) != (e.Op == opAcquire) {
			t.Errorf("%q: ErrNotAcquired is for acquires", text)
		}
	}
}

// Close does not wait for nodes that hang, whatever is on its way to them.
func TestCloseWithHungNodes(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	h := take(t, r, "x")
	must(t, servers[0].Pause())
	defer servers[0].Resume()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := r.Acquire(ctx, "x") // subscribes
	wants(t, err, ErrTaken, context.DeadlineExceeded)
	must(t, h.Release(t.Context()))
	start := time.Now()
	must(t, r.Close())
	if took := time.Since(start); took > 3*r.cfg.NodeTimeout {
		t.Errorf("Close took %v", took)
	}
}
