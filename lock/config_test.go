package lock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

func TestL03_ClientOptions(t *testing.T) {
	client := func(change func(*redis.Options)) redis.UniversalClient {
		o := &redis.Options{Addr: "127.0.0.1:1"}
		forNode(o)
		if change != nil {
			change(o)
		}
		c := redis.NewClient(o)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:3"}})
	defer ring.Close()
	for _, c := range []struct {
		what    string
		clients []redis.UniversalClient
		want    []string
	}{
		{"none", nil, []string{"no Redis nodes"}},
		{"nil", []redis.UniversalClient{nil}, []string{"node 0", "nil"}},
		{"typed nil", []redis.UniversalClient{(*redis.Client)(nil)}, []string{"node 0", "nil"}},
		{"even", []redis.UniversalClient{client(nil), client(func(o *redis.Options) { o.Addr = "127.0.0.1:2" })}, []string{"even"}},
		{"twice", []redis.UniversalClient{client(nil), client(nil), client(nil)}, []string{"nodes 0 and 1", "127.0.0.1:1"}},
		{"ignores contexts", []redis.UniversalClient{client(func(o *redis.Options) { o.ContextTimeoutEnabled = false })}, []string{"ContextTimeoutEnabled"}},
		{"retries", []redis.UniversalClient{client(func(o *redis.Options) { o.MaxRetries = 0 })}, []string{"MaxRetries"}},
		{"unreadable", []redis.UniversalClient{ring}, []string{"Ring", "TrustClients"}},
		{"everything", []redis.UniversalClient{
			client(func(o *redis.Options) { o.ContextTimeoutEnabled, o.MaxRetries = false, 2 }), nil,
		}, []string{"ContextTimeoutEnabled", "MaxRetries", "node 1: the client is nil", "even"}},
	} {
		r, err := New(context.Background(), c.clients, Config{})
		if err == nil {
			_ = r.Close()
			t.Errorf("%s: accepted", c.what)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not name %q", c.what, err, want)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than one line: %v", c.what, err)
		}
	}
}

func TestConfigReportsEverything(t *testing.T) {
	err := Config{TTL: -1, MaxTTL: time.Millisecond, MaxHold: -1, NodeTimeout: -1, Owner: "a b"}.Validate()
	for _, want := range []string{"TTL", "MaxTTL", "MaxHold", "NodeTimeout", "Owner"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("the zero Config: %v", err)
	}
}

func TestL24_ImpossibleTTL(t *testing.T) {
	clients, err := Dial("redis://127.0.0.1:1,redis://127.0.0.1:2", "redis://127.0.0.1:3")
	must(t, err)
	t.Cleanup(func() {
		for _, c := range clients {
			_ = c.Close() // the locker's clean-up comes first
		}
	})
	r := locker(t, clients, Config{})
	for _, ttl := range []time.Duration{-time.Second, 0, time.Nanosecond, 10*time.Millisecond - 1} {
		start := time.Now()
		_, err := r.TryAcquire(t.Context(), "x", WithTTL(ttl))
		wants(t, err, ErrNotAcquired)
		if took := time.Since(start); took > 50*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
		if err == nil || !strings.Contains(err.Error(), "below 10ms") {
			t.Errorf("TTL %v: %v", ttl, err)
		}
	}
}

func TestNewWithEveryNodeDown(t *testing.T) {
	clients, err := Dial("redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3")
	must(t, err)
	r := locker(t, clients, Config{})
	_, err = r.TryAcquire(t.Context(), "x")
	wants(t, err, ErrNoQuorum, ErrNotAcquired)
	for _, c := range clients {
		_ = c.Close()
	}
}

func TestDialRefuses(t *testing.T) {
	_, err := Dial("redis://u:secret@host:port", "http://x")
	if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "node 1") {
		t.Errorf("%v", err)
	}
}

func TestDialTakesHostAndPort(t *testing.T) {
	clients, err := Dial("10.0.0.1:6379, redis://10.0.0.2:6380", "[::1]:6381", "redis-1")
	must(t, err)
	want := []string{"10.0.0.1:6379", "10.0.0.2:6380", "[::1]:6381", "redis-1:6379"}
	for i, c := range clients {
		if addr := c.(*redis.Client).Options().Addr; addr != want[i] {
			t.Errorf("node %d is %s, want %s", i, addr, want[i])
		}
		_ = c.Close()
	}
}

func TestDialOfNothing(t *testing.T) {
	for _, urls := range [][]string{{""}, {}, {"10.0.0.1:6379,"}} {
		if _, err := Dial(urls...); err == nil || !strings.Contains(err.Error(), "is empty") {
			t.Errorf("%q: %v", urls, err)
		}
	}
}

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []observe.Event
}

func (r *recorder) Observe(e observe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func eventsOf[E observe.Event](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []E
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

func TestL25_EvictionPolicy(t *testing.T) {
	servers := testenv.Redis(t, 3)
	clients := clientsOf(servers)
	must(t, Init(t.Context(), clients, Config{MaxTTL: testMaxTTL}))
	if found := Check(t.Context(), clients); len(found) != 0 {
		t.Errorf("findings on healthy nodes: %v", found)
	}
	must(t, servers[1].Client().ConfigSet(t.Context(), "maxmemory", "100mb").Err())
	must(t, servers[1].Client().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	found := Check(t.Context(), clients)
	if len(found) != 1 || found[0].Index != 1 || !strings.Contains(found[0].String(), "allkeys-lru") {
		t.Errorf("Check: %v", found)
	}
	var events recorder
	locker(t, clients, Config{Observer: &events, NodeTimeout: time.Second})
	if warned := eventsOf[observe.NodeWarning](&events); len(warned) != 1 || !strings.Contains(warned[0].Problem, "allkeys-lru") {
		t.Errorf("warned of %v", warned)
	}
}
