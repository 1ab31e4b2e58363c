package lock

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// long says that tests may take minutes.
var long = os.Getenv("REDFENCE_LONG") == "1"

// choose returns what a test does at length, or what it does otherwise.
func choose[T any](atLength, otherwise T) T {
	if long {
		return atLength
	}
	return otherwise
}

// clientsOf returns the clients of the servers.
func clientsOf(servers []*testenv.RedisServer) []redis.UniversalClient {
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		clients[i] = s.Client()
	}
	return clients
}

// testMaxTTL is short, so that tests can wait for it.
const testMaxTTL = 2 * time.Second

// deploy starts n empty nodes and begins a guarded deployment on them.
func deploy(t testing.TB, n int) []*testenv.RedisServer {
	t.Helper()
	servers := testenv.Redis(t, n)
	if err := Init(t.Context(), clientsOf(servers), Config{MaxTTL: testMaxTTL}); err != nil {
		t.Fatal(err)
	}
	return servers
}

// locker returns a Redlock that ends with t.
func locker(t testing.TB, clients []redis.UniversalClient, cfg Config) *Redlock {
	t.Helper()
	if cfg.MaxTTL == 0 {
		cfg.MaxTTL = testMaxTTL
	}
	if cfg.NodeTimeout == 0 {
		cfg.NodeTimeout = time.Second // the machine may have much else to do
	}
	r, err := New(t.Context(), clients, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// take acquires or fails the test.
func take(t testing.TB, r *Redlock, name string, opts ...Option) *held {
	t.Helper()
	lease, err := r.TryAcquire(within(t, 10*time.Second), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return lease.(*held)
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// freeze keeps a lease from being renewed, as if its process had stopped.
func (h *held) freeze() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = h.until.Add(time.Hour)
	h.setTimer()
}

// holders returns the value of a lock at each node.
func holders(t testing.TB, servers []*testenv.RedisServer, key string) []string {
	t.Helper()
	values := make([]string, len(servers))
	for i, s := range servers {
		v, err := s.Client().Get(within(t, 5*time.Second), key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		values[i] = v
	}
	return values
}

// copies fails unless so many nodes hold the lock.
func copies(t testing.TB, servers []*testenv.RedisServer, key string, want int) error {
	t.Helper()
	n := 0
	for _, value := range holders(t, servers, key) {
		if value != "" {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d nodes hold the lock, want %d", n, want)
	}
	return nil
}

// noKeys checks that no lock is left on any node.
func noKeys(servers []*testenv.RedisServer, prefix string) error {
	for i, s := range servers {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		keys, err := s.Client().Keys(ctx, prefix+"{*}:l").Result()
		cancel()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			return fmt.Errorf("node %d still has %d locks: %.200q", i, len(keys), keys)
		}
	}
	return nil
}

// eventually polls check until it succeeds, for at most d.
func eventually(t testing.TB, d time.Duration, check func() error) {
	t.Helper()
	deadline := time.Now().Add(d)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", d, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wants(t testing.TB, err error, sentinels ...error) {
	t.Helper()
	for _, want := range sentinels {
		if !errors.Is(err, want) {
			t.Errorf("got %v, want a match of %v", err, want)
		}
	}
}

// quickest runs do a few times and returns the shortest time: a limit of
// milliseconds is about the lock, not about what else the machine does.
func quickest(times int, do func()) time.Duration {
	best := time.Hour
	for range times {
		start := time.Now()
		do()
		best = min(best, time.Since(start))
	}
	return best
}

// asked waits until every node has said that it will tell r of name's release.
func asked(r *Redlock, name string) error {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		r.subscriber.mu.Lock()
		t := r.subscriber.topics[r.key(name)]
		all := t != nil && bits.OnesCount64(t.acked) == len(r.nodes)
		r.subscriber.mu.Unlock()
		switch {
		case all:
			return nil
		case time.Now().After(deadline):
			return errors.New("not every node was asked")
		}
	}
}
