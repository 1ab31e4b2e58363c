package cache

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var start = time.UnixMicro(1_800_000_000_000_000)

// at is a clock that stands still, exact to a second.
func at(now time.Time) Clock {
	return func() (time.Time, time.Duration, bool) { return now, time.Second, true }
}

type events struct {
	mu  sync.Mutex
	all []observe.Event
}

func (e *events) Observe(event observe.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) count(match func(observe.Event) bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, event := range e.all {
		if match(event) {
			n++
		}
	}
	return n
}

func open(t *testing.T, servers []*testenv.RedisServer, cfg Config) *Cache {
	t.Helper()
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		clients[i] = s.Client()
	}
	c, err := New(clients, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// mustPut puts a record and waits until a majority of the servers has it.
func mustPut(t *testing.T, c *Cache, r Record, servers []*testenv.RedisServer) {
	t.Helper()
	c.Put(r, start)
	want, _ := r.encode(c.cfg.Keys)
	eventually(t, "a majority has the record", func() bool {
		copies := 0
		for _, s := range servers {
			if raw(t, s, r.Digest) == string(want) {
				copies++
			}
		}
		return copies == len(servers)/2+1
	})
}

func raw(t *testing.T, s *testenv.RedisServer, digest [32]byte) string {
	t.Helper()
	text, err := s.Client().Get(context.Background(), keyOf(digest)).Result()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	return text
}

func TestPutAndGet(t *testing.T) {
	servers := testenv.Redis(t, 5)
	c := open(t, servers, Config{Keys: ring(t, 1)})
	want := completed(1, 3, start.Add(time.Hour))
	if _, result := c.Get(t.Context(), want.Digest, at(start)); result != Absent {
		t.Errorf("before the put: %s", result)
	}
	mustPut(t, c, want, servers)
	got, result := c.Get(t.Context(), want.Digest, at(start))
	if result != Hit {
		t.Fatalf("got %s", result)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if ttl := servers[0].Client().PTTL(t.Context(), keyOf(want.Digest)).Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("time to live %v", ttl)
	}
}

func TestReaderJudgesExpiry(t *testing.T) {
	servers := testenv.Redis(t, 1)
	c := open(t, servers, Config{})
	r := completed(1, 3, start.Add(time.Minute))
	mustPut(t, c, r, servers)
	for after, want := range map[time.Duration]Result{
		0:                            Hit,
		59*time.Second - 1:           Hit,
		59 * time.Second:             Expired, // within the margin: only the ledger can say
		time.Minute:                  Expired,
		time.Hour:                    Expired,
		-time.Hour:                   Hit,
		time.Minute - time.Second/10: Expired,
	} {
		if _, got := c.Get(t.Context(), r.Digest, at(start.Add(after))); got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
	none := func() (time.Time, time.Duration, bool) { return time.Time{}, 0, false }
	if _, got := c.Get(t.Context(), r.Digest, none); got != NoClock {
		t.Errorf("without an estimate: %s", got)
	}
}

func TestForeverIsBoundedByTTLOnly(t *testing.T) {
	servers := testenv.Redis(t, 1)
	c := open(t, servers, Config{TTL: time.Minute})
	r := completed(1, 3, time.Time{})
	mustPut(t, c, r, servers)
	if _, got := c.Get(t.Context(), r.Digest, at(start.AddDate(100, 0, 0))); got != Hit {
		t.Errorf("got %s", got)
	}
	if ttl := servers[0].Client().PTTL(t.Context(), keyOf(r.Digest)).Val(); ttl > time.Minute {
		t.Errorf("kept for %v", ttl)
	}
}

func TestLargerFenceWins(t *testing.T) {
	servers := testenv.Redis(t, 1)
	seen := &events{}
	c := open(t, servers, Config{Observer: seen})
	superseded := func(e observe.Event) bool {
		p, ok := e.(observe.CachePut)
		return ok && p.Result == "superseded"
	}
	// Beyond 2^53 a Lua number cannot tell neighbours apart.
	fences := []int64{1, 255, 256, 1 << 31, 1 << 32, 1<<53 + 1, 1<<53 + 2, math.MaxInt64 - 1, math.MaxInt64}
	for i, fence := range fences {
		mustPut(t, c, completed(1, fence, time.Time{}), servers)
		if i == 0 {
			continue
		}
		before := seen.count(superseded)
		c.Put(completed(1, fences[i-1], time.Time{}), start)
		eventually(t, "the smaller fence is refused", func() bool { return seen.count(superseded) == before+1 })
		if got, _ := c.Get(t.Context(), completed(1, 0, start).Digest, at(start)); got.Fence != fence {
			t.Fatalf("fence %d replaced %d", got.Fence, fence)
		}
	}
}

// The owner completes, is stopped before its put, and wakes after retention
// and a newer completion.
func TestI38LatePut(t *testing.T) {
	servers := testenv.Redis(t, 3)
	c := open(t, servers, Config{})
	old, newer := completed(1, 10, start.Add(time.Minute)), completed(1, 11, start.Add(time.Hour))
	newer.Payload = []byte("newer")
	mustPut(t, c, newer, servers[:])
	first := servers[home(keyOf(old.Digest), len(servers))]
	if err := first.Client().FlushAll(t.Context()).Err(); err != nil { // one node has lost it
		t.Fatal(err)
	}
	c.Put(old, start)
	eventually(t, "the late put has arrived", func() bool { return raw(t, first, old.Digest) != "" })
	for range 3 {
		got, result := c.Get(t.Context(), newer.Digest, at(start.Add(2*time.Minute)))
		if result != Hit || string(got.Payload) != "newer" {
			t.Fatalf("%s: %q", result, got.Payload)
		}
	}
}

// A forged or bit-flipped record in one node is a miss, counted; the record of
// another node, or the ledger, answers.
func TestI35ForgedRecord(t *testing.T) {
	servers := testenv.Redis(t, 1)
	seen := &events{}
	c := open(t, servers, Config{Keys: ring(t, 1), Observer: seen})
	r := completed(1, 3, time.Time{})
	mustPut(t, c, r, servers)
	good := []byte(raw(t, servers[0], r.Digest))

	forged := r
	forged.Payload = []byte("attack")
	unsigned, _ := forged.encode(nil)
	stranger, _ := forged.encode(ring(t, 2))
	other := completed(2, 3, time.Time{})
	swapped, _ := other.encode(c.cfg.Keys)
	flipped := slices.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, record := range map[string][]byte{
		"without a tag": unsigned, "under another secret": stranger, "of another key": swapped,
		"bit flipped": flipped, "garbage": []byte("garbage"), "cut": good[:len(good)-1],
	} {
		before := seen.count(isUnverified)
		if err := servers[0].Client().Set(t.Context(), keyOf(r.Digest), record, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got, result := c.Get(t.Context(), r.Digest, at(start)); result != Unverified || got.Payload != nil {
			t.Errorf("%s: %s %q", name, result, got.Payload)
		}
		if seen.count(isUnverified) != before+1 {
			t.Errorf("%s: not counted", name)
		}
	}
}

func isUnverified(e observe.Event) bool { _, ok := e.(observe.CacheUnverified); return ok }

func TestOneMoreNodeOnAMiss(t *testing.T) {
	servers := testenv.Redis(t, 3)
	c := open(t, servers, Config{Keys: ring(t, 1)})
	r := completed(1, 3, time.Time{})
	mustPut(t, c, r, servers)
	first := c.nodes[home(keyOf(r.Digest), len(c.nodes))]
	for name, harm := range map[string]func() error{
		"flushed": func() error { return first.Client().FlushAll(t.Context()).Err() },
		"forged":  func() error { return first.Client().Set(t.Context(), keyOf(r.Digest), "x", 0).Err() },
		"another type": func() error {
			return firstError(first.Client().Del(t.Context(), keyOf(r.Digest)).Err(),
				first.Client().LPush(t.Context(), keyOf(r.Digest), "x").Err())
		},
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		want := Hit
		if name == "flushed" { // the ledger and the put that follows end that
			want = Absent
		}
		if _, result := c.Get(t.Context(), r.Digest, at(start)); result != want {
			t.Errorf("%s: %s, want %s", name, result, want)
		}
		if _, result := c.Recall(t.Context(), r.Digest, at(start)); result != Hit {
			t.Errorf("%s: %s by Recall", name, result)
		}
	}
}

// TestWhateverMinorityIsDown: the first node that is up, from the record's home,
// has it.
func TestWhateverMinorityIsDown(t *testing.T) {
	servers := testenv.Redis(t, 5)
	c := open(t, servers, Config{NodeTimeout: 100 * time.Millisecond})
	r := completed(1, 3, time.Time{})
	mustPut(t, c, r, servers)
	first := home(keyOf(r.Digest), len(servers))
	for i := range 2 {
		if err := servers[(first+i)%len(servers)].Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the next node answers", func() bool {
			_, result := c.Get(t.Context(), r.Digest, at(start))
			return result == Hit
		})
	}
	other := completed(2, 3, time.Time{}) // put while a minority is down
	for home(keyOf(other.Digest), len(servers)) != first {
		other.Digest[31]++
	}
	c.Put(other, start)
	eventually(t, "a record that was put meanwhile", func() bool {
		_, result := c.Get(t.Context(), other.Digest, at(start))
		return result == Hit
	})
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestDeadNodesAreAMiss(t *testing.T) {
	servers := testenv.Redis(t, 3)
	c := open(t, servers, Config{NodeTimeout: 100 * time.Millisecond})
	r := completed(1, 3, time.Time{})
	mustPut(t, c, r, servers)
	first := home(keyOf(r.Digest), len(servers))
	for i := range servers { // the one without a copy first
		if err := servers[(first+2+i)%len(servers)].Kill(); err != nil {
			t.Fatal(err)
		}
		if i < 2 { // at most two dead nodes are asked before their breakers open
			eventually(t, "the survivors answer", func() bool {
				_, result := c.Get(t.Context(), r.Digest, at(start))
				return result == Hit
			})
		}
	}
	began := time.Now()
	for range 20 {
		c.Put(r, start)
		if _, result := c.Get(t.Context(), r.Digest, at(start)); result != Failed {
			t.Fatalf("with every node dead: %s", result)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("20 look-ups at dead nodes took %v", took)
	}
}

func TestGetHonoursItsContext(t *testing.T) {
	servers := testenv.Redis(t, 1)
	c := open(t, servers, Config{NodeTimeout: 10 * time.Second})
	mustPut(t, c, completed(1, 3, time.Time{}), servers)
	if err := servers[0].Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, result := c.Get(ctx, completed(1, 0, start).Digest, at(start))
	if took := time.Since(began); result != Failed || took > 5*time.Second {
		t.Errorf("%s after %v", result, took)
	}
	if err := servers[0].Resume(); err != nil {
		t.Fatal(err)
	}
}

func TestKeyNameIsFrozen(t *testing.T) {
	got := keyOf([32]byte{0xab, 31: 0xcd})
	if want := "rf1:{ab" + strings.Repeat("00", 30) + "cd}:c"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestConfigProblems(t *testing.T) {
	_, err := New(nil, Config{TTL: -1, NearBytes: -1, MaxBytes: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{"TTL", "NearBytes", "MaxBytes", "no Redis nodes"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}
