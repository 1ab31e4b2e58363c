package cache

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

// I53: the response is gone from every node that answers, the one that does not
// is named, and a put that was delayed past it loses.
func TestI53Forget(t *testing.T) {
	servers := testenv.Redis(t, 3)
	c := open(t, servers, Config{Keys: ring(t, 1), NearBytes: 1 << 20})
	r := completed(1, 10, start.Add(time.Hour))
	mustPut(t, c, r, servers)
	if err := servers[2].Pause(); err != nil {
		t.Fatal(err)
	}
	erased := Record{Digest: r.Digest, Fence: 11, ExpiresAt: r.ExpiresAt}
	err := c.Forget(t.Context(), erased, start)
	if err == nil || !strings.Contains(err.Error(), servers[2].Addr()) || strings.Contains(err.Error(), servers[0].Addr()) {
		t.Fatalf("got %v; it must name %s and no other", err, servers[2].Addr())
	}
	c.Put(r, start) // delayed past the erasure
	for _, s := range servers[:2] {
		eventually(t, "the late put was refused", func() bool { return !strings.Contains(raw(t, s, r.Digest), "payload") })
	}
	if got, result := c.Get(t.Context(), r.Digest, at(start)); result == Hit || got.Payload != nil && len(got.Payload) > 0 {
		t.Errorf("after Forget: %s %q", result, got.Payload)
	}
	if err := servers[2].Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "every node has answered", func() bool { return c.Forget(t.Context(), erased, start) == nil })
	for _, s := range servers {
		if text := raw(t, s, r.Digest); strings.Contains(text, "payload") {
			t.Errorf("%s still has the response", s.Addr())
		}
		if ttl := s.Client().PTTL(t.Context(), keyOf(r.Digest)).Val(); ttl <= 59*time.Minute {
			t.Errorf("the marker stays for %v, want until the key expires", ttl)
		}
	}
	newer := completed(1, 12, start.Add(2*time.Hour)) // the key runs again after its retention
	mustPut(t, c, newer, servers)
	if _, result := c.Get(t.Context(), r.Digest, at(start)); result != Hit {
		t.Errorf("a newer completion: %s", result)
	}
}

func TestForgetForever(t *testing.T) {
	servers := testenv.Redis(t, 1)
	c := open(t, servers, Config{})
	if err := c.Forget(t.Context(), Record{Digest: [32]byte{1}, Fence: 5}, start); err != nil {
		t.Fatal(err)
	}
	if ttl := servers[0].Client().TTL(t.Context(), keyOf([32]byte{1})).Val(); ttl != -1 {
		t.Errorf("the marker stays for %v", ttl)
	}
	if _, result := c.Get(t.Context(), [32]byte{1}, at(start)); result != Erased {
		t.Errorf("got %s", result)
	}
}

func TestForgetHonoursItsContext(t *testing.T) {
	servers := testenv.Redis(t, 1)
	c := open(t, servers, Config{NodeTimeout: 10 * time.Second})
	mustPut(t, c, completed(1, 1, time.Time{}), servers)
	if err := servers[0].Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := c.Forget(ctx, Record{Digest: [32]byte{1}, Fence: 5}, start)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), servers[0].Addr()) {
		t.Errorf("got %v", err)
	}
	if err := servers[0].Resume(); err != nil {
		t.Fatal(err)
	}
}

func TestLargeRecords(t *testing.T) {
	servers := testenv.Redis(t, 3)
	c := open(t, servers, Config{Keys: ring(t, 1)})
	for i, size := range []int{large - 1000, large, large + 1, 1 << 20, 5 << 20} {
		r := completed(byte(i+1), 3, start.Add(time.Hour))
		r.Payload = []byte(strings.Repeat("x", size))
		mustPut(t, c, r, servers)
		got, result := c.Get(t.Context(), r.Digest, at(start))
		if result != Hit || string(got.Payload) != string(r.Payload) {
			t.Errorf("%d bytes: %s, %d bytes", size, result, len(got.Payload))
		}
	}
}

func TestNearCache(t *testing.T) {
	servers := testenv.Redis(t, 1)
	c := open(t, servers, Config{NearBytes: 1 << 20})
	r := completed(1, 3, start.Add(time.Minute))
	mustPut(t, c, r, servers)
	if err := servers[0].Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if got, result := c.Get(t.Context(), r.Digest, at(start)); result != Hit || string(got.Payload) != "payload" {
		t.Errorf("right after the put: %s", result)
	}
	copy(r.Payload, "PAYLOAD") // whatever a caller does to what it gave
	if got, _ := c.Get(t.Context(), r.Digest, at(start)); string(got.Payload) != "payload" {
		t.Errorf("got %q", got.Payload)
	}
	if _, result := c.Get(t.Context(), r.Digest, at(start.Add(time.Minute))); result == Hit {
		t.Errorf("near records expire as well: %s", result)
	}
	c.near.put(completed(1, 2, start.Add(time.Hour)))
	if got, _ := c.near.get(r.Digest); got.Fence != 3 {
		t.Error("a smaller fence replaced a larger one")
	}
	c.near.entries.Set(r.Digest, nearEntry{record: r, until: time.Now().Add(-time.Second)})
	if _, result := c.Get(t.Context(), r.Digest, at(start)); result == Hit {
		t.Error("an entry answered for longer than it may")
	}
}

func TestNearCacheIsBounded(t *testing.T) {
	n := newNear(100_000)
	for i := range 1000 {
		r := completed(0, 1, time.Time{})
		r.Digest[0], r.Digest[1] = byte(i), byte(i>>8)
		r.Payload = make([]byte, 1000)
		n.put(r)
	}
	n.entries.CleanUp()
	if size := n.entries.WeightedSize(); size > 100_000 {
		t.Errorf("%d bytes", size)
	}
}

// I48: the memory bound is reached: puts stop and are counted.
func TestI48Bound(t *testing.T) {
	for name, cfg := range map[string]Config{"of its own": {MaxBytes: 1}, "of the node": {}} {
		t.Run(name, func(t *testing.T) {
			servers := testenv.Redis(t, 1)
			if cfg.MaxBytes == 0 { // most of it is in use by the empty server
				used := infoField(servers[0].Client().Info(t.Context(), "memory").Val(), "used_memory")
				if err := servers[0].Client().ConfigSet(t.Context(), "maxmemory", strconv.FormatInt(used*3/2, 10)).Err(); err != nil {
					t.Fatal(err)
				}
			}
			seen := &events{}
			cfg.Observer = seen
			c := open(t, servers, cfg)
			isFull := func(e observe.Event) bool { p, ok := e.(observe.CachePut); return ok && p.Result == "full" }
			eventually(t, "puts stop", func() bool {
				c.Put(completed(1, 1, time.Time{}), start)
				return seen.count(isFull) > 0
			})
			if _, err := servers[0].Client().Set(t.Context(), "a lock", "x", 0).Result(); err != nil {
				t.Errorf("locks go on: %v", err)
			}
		})
	}
}
