package lock

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/testenv"
)

// slowly returns a locker over links that take so long that acquires which come
// together go together.
func slowly(t *testing.T, servers []*testenv.RedisServer) *Redlock {
	proxies, clients := links(t, servers)
	r := locker(t, clients, Config{NodeTimeout: 2 * time.Second})
	for _, p := range proxies {
		p.set(func(p *proxy) { p.delay = 10 * time.Millisecond })
	}
	return r
}

type tried struct {
	lease *held
	err   error
}

// together makes one try at each name at the same time.
func together(t *testing.T, r *Redlock, names []string) []tried {
	list := make([]tried, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			lease, err := r.TryAcquire(within(t, 10*time.Second), name, WithTTL(testMaxTTL))
			list[i].err = err
			if err == nil {
				list[i].lease = lease.(*held)
			}
		})
	}
	all.Wait()
	return list
}

func numbered(prefix string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}

// fencesOf releases what was granted, and returns the fences.
func fencesOf(t *testing.T, list []tried) (fences []int64) {
	t.Helper()
	for _, r := range list {
		must(t, r.err)
		fences = append(fences, r.lease.Fence())
	}
	for _, r := range list {
		must(t, r.lease.Release(t.Context()))
	}
	return fences
}

var evalshaCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

func scriptCalls(t *testing.T, s *testenv.RedisServer) int {
	info, err := s.Client().Info(t.Context(), "commandstats").Result()
	must(t, err)
	m := evalshaCalls.FindStringSubmatch(info)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	must(t, err)
	return n
}

// TestTally: acquires that go together are counted together, each at the fence
// that it has proposed, above those of the round before: the nodes of a process
// that is alone keep in step.
func TestTally(t *testing.T) {
	t.Parallel()
	const n = 64
	servers := deploy(t, 3)
	r := slowly(t, servers)
	var last int64
	for round := range 3 {
		before := scriptCalls(t, servers[0])
		list := together(t, r, numbered("x", n))
		if calls := scriptCalls(t, servers[0]) - before; calls > n/2 {
			t.Errorf("round %d: %d calls of scripts for %d acquires", round, calls, n)
		}
		for _, l := range list {
			must(t, l.err)
			eventually(t, time.Second, func() error { return copies(t, servers, l.lease.key, 3) })
			if l.lease.Fence() != l.lease.acquired.proposed {
				t.Errorf("round %d: fence %d, proposed %d", round, l.lease.Fence(), l.lease.acquired.proposed)
			}
		}
		fences := fencesOf(t, list)
		slices.Sort(fences)
		if fences[0] <= last {
			t.Errorf("round %d: fence %d after %d", round, fences[0], last)
		}
		if len(slices.Compact(fences)) != n {
			t.Errorf("round %d: two locks have one fence: %d", round, fences)
		}
		last = slices.Max(fences)
	}
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

// TestTallyOfTakenLocks: who is refused in company learns by whom, and who is not
// is not held up.
func TestTallyOfTakenLocks(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	rival, r := locker(t, clientsOf(servers), Config{Owner: "rival"}), slowly(t, servers)
	names := numbered("x", 32)
	for i, name := range names {
		if i%2 == 0 {
			take(t, rival, name)
		}
	}
	for i, l := range together(t, r, names) {
		if i%2 == 1 {
			must(t, l.err)
			continue
		}
		if wants(t, l.err, ErrTaken); !strings.Contains(l.err.Error(), "taken by rival") {
			t.Errorf("%v does not say who holds the lock", l.err)
		}
	}
}

// TestTallyOfAFlushedNode: a node that has lost its memory votes for none of
// them, and keeps none of them.
func TestTallyOfAFlushedNode(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := slowly(t, servers)
	fencesOf(t, together(t, r, numbered("warm", 8)))
	for _, s := range servers[:2] {
		must(t, s.Client().FlushAll(t.Context()).Err())
	}
	for _, l := range together(t, r, numbered("x", 16)) {
		var why *GuardError
		if wants(t, l.err, ErrNoQuorum); !errors.As(l.err, &why) {
			t.Errorf("%v", l.err)
		}
	}
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })

	lease, err := r.Acquire(within(t, 4*testMaxTTL), "back")
	must(t, err)
	must(t, lease.Release(t.Context()))
	fencesOf(t, together(t, r, numbered("y", 16)))
	eventually(t, time.Second, func() error { return noKeys(servers, guardedPrefix) })
}

// TestTallyWithoutItsScript: a server that has dropped its scripts gets them anew.
func TestTallyWithoutItsScript(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := slowly(t, servers)
	for _, s := range servers {
		must(t, s.Client().ScriptFlush(t.Context()).Err())
	}
	first := fencesOf(t, together(t, r, numbered("x", 32)))
	before := scriptCalls(t, servers[0])
	list := together(t, r, numbered("x", 32))
	if calls := scriptCalls(t, servers[0]) - before; calls > 16 {
		t.Errorf("%d calls of scripts for 32 acquires", calls)
	}
	if second := fencesOf(t, list); slices.Min(second) <= slices.Max(first) {
		t.Errorf("fences %d after %d", second, first)
	}
}

// TestTallyBeyondDoubles: fences that no double holds are drawn one by one.
func TestTallyBeyondDoubles(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	for _, s := range servers {
		must(t, s.Client().Set(t.Context(), counterKey, int64(1)<<53-20, 0).Err())
	}
	r := slowly(t, servers)
	var last int64
	for range 3 {
		fences := fencesOf(t, together(t, r, numbered("x", 16)))
		if slices.Min(fences) <= last {
			t.Fatalf("fences %d after %d", fences, last)
		}
		last = slices.Max(fences)
	}
	if last <= 1<<53 {
		t.Errorf("the last fence is %d: not what the test wants", last)
	}
}

// TestTallyGivenUp: what was given up while its answers were on their way leaves
// nothing behind, whatever the tally says.
func TestTallyGivenUp(t *testing.T) {
	t.Parallel()
	for _, flushed := range []bool{false, true} {
		t.Run(fmt.Sprint("flushed: ", flushed), func(t *testing.T) {
			servers := deploy(t, 3)
			r := slowly(t, servers)
			if flushed {
				must(t, servers[0].Client().FlushAll(t.Context()).Err())
			}
			var all sync.WaitGroup
			for i := range 64 {
				all.Go(func() {
					ctx := within(t, time.Duration(i)*time.Millisecond)
					if lease, err := r.TryAcquire(ctx, fmt.Sprint("x", i)); err == nil {
						ReleaseLater(lease)
					}
				})
			}
			all.Wait()
			eventually(t, 2*time.Second, func() error { return noKeys(servers, guardedPrefix) })
		})
	}
}
