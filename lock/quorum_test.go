package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/testenv"
)

// TestL04_EveryCountDecides goes through every order in which the nodes can
// vote: a verdict stands once, is the right one, and comes with the first vote
// that makes it certain.
func TestL04_EveryCountDecides(t *testing.T) {
	for n := 1; n <= 5; n++ {
		total := 1
		for range n {
			total *= 3
		}
		for code := range total {
			votes := make([]vote, n)
			for i, rest := 0, code; i < n; i, rest = i+1, rest/3 {
				votes[i] = yes + vote(rest%3)
			}
			checkVerdict(t, votes)
		}
	}
}

func checkVerdict(t *testing.T, votes []vote) {
	t.Helper()
	n := len(votes)
	want := finalVerdict(votes)
	var c count
	settled := undecided
	for i, v := range votes {
		c = c.with(v)
		got := c.decide(n)
		if settled != undecided && got != settled {
			t.Fatalf("%v: the verdict changed from %v to %v", votes[:i+1], settled, got)
		}
		settled = got
		if certain := certainVerdict(c, n); got != certain {
			t.Fatalf("%v of %d: %v, certain is %v", votes[:i+1], n, got, certain)
		}
	}
	if settled != want {
		t.Fatalf("%v: %v, want %v", votes, settled, want)
	}
}

func (c count) with(v vote) count {
	switch v {
	case yes:
		c.yes++
	case no:
		c.no++
	case failed:
		c.failed++
	}
	return c
}

// finalVerdict is the definition, when every node has voted.
func finalVerdict(votes []vote) outcome {
	var c count
	for _, v := range votes {
		c = c.with(v)
	}
	quorum := len(votes)/2 + 1
	switch {
	case c.yes >= quorum:
		return won
	case c.yes+c.no >= quorum:
		return refused
	}
	return noQuorum
}

// certainVerdict tries all that the nodes that are still out can say.
func certainVerdict(c count, n int) outcome {
	seen := map[outcome]bool{}
	left := n - c.yes - c.no - c.failed
	for y := range left + 1 {
		for r := range left - y + 1 {
			all := slices.Concat(slices.Repeat([]vote{yes}, c.yes+y), slices.Repeat([]vote{no}, c.no+r),
				slices.Repeat([]vote{failed}, c.failed+left-y-r))
			seen[finalVerdict(all)] = true
		}
	}
	if len(seen) > 1 {
		return undecided
	}
	for o := range seen {
		return o
	}
	return undecided
}

// TestL04_MatrixOnServers meets every mix of free, taken and unreachable nodes,
// with redsync and without: the verdicts are the same and the right ones.
func TestL04_MatrixOnServers(t *testing.T) {
	servers := deploy(t, 5)
	for _, n := range []int{1, 3, 5} {
		proxies, clients := links(t, servers[:n])
		for free := range n + 1 {
			for taken := range n - free + 1 {
				for i, p := range proxies {
					p.setCut(i >= free+taken)
				}
				for _, direct := range []bool{false, true} {
					r := locker(t, clients, Config{Direct: direct, Unguarded: true})
					name := fmt.Sprintf("%d-%d-%d-%v", n, free, taken, direct)
					for _, s := range servers[free : free+taken] {
						must(t, s.Client().Set(t.Context(), r.key(name), valueOf(newToken(), "rival", 0), time.Minute).Err())
					}
					lease, err := r.TryAcquire(t.Context(), name)
					checkOutcome(t, fmt.Sprintf("%d nodes, %d free, %d taken, direct %v", n, free, taken, direct), n, free, taken, err)
					if lease != nil {
						must(t, lease.Release(t.Context()))
					}
					must(t, r.Close())
				}
			}
		}
	}
}

func checkOutcome(t *testing.T, what string, n, free, taken int, err error) {
	t.Helper()
	quorum := n/2 + 1
	var want error
	switch {
	case free >= quorum:
		if err != nil {
			t.Errorf("%s: %v, want the lease", what, err)
		}
		return
	case free+taken >= quorum:
		want = ErrTaken
	default:
		want = ErrNoQuorum
	}
	matches := 0
	for _, sentinel := range []error{ErrTaken, ErrNoQuorum, ErrTooLate} {
		if errors.Is(err, sentinel) {
			matches++
		}
	}
	if !errors.Is(err, want) || !errors.Is(err, ErrNotAcquired) || matches != 1 {
		t.Errorf("%s: %v, want %v and nothing else", what, err, want)
	}
}

func TestL04_TooLate(t *testing.T) {
	servers := deploy(t, 3)
	proxies, clients := links(t, servers)
	for _, unguarded := range []bool{false, true} {
		r := locker(t, clients, Config{Unguarded: unguarded})
		must(t, take(t, r, "warm").Release(t.Context()))
		for _, p := range proxies {
			p.set(func(s *proxy) { s.delay = 40 * time.Millisecond })
		}
		_, err := r.TryAcquire(t.Context(), "x", WithTTL(20*time.Millisecond))
		wants(t, err, ErrTooLate, ErrNotAcquired)
		if errors.Is(err, ErrTaken) || errors.Is(err, ErrNoQuorum) {
			t.Errorf("outcomes are mixed: %v", err)
		}
		for _, p := range proxies {
			p.set(func(s *proxy) { s.delay = 0 })
		}
		eventually(t, time.Second, func() error { return noKeys(servers, r.cfg.Prefix+"{x}") })
	}
}

// TestDifferential lets redsync and the direct count judge the same answers.
func TestDifferential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 3, 5, 7}).Draw(t, "nodes")
		votes := rapid.SliceOfN(rapid.SampledFrom([]vote{yes, no, failed}), n, n).Draw(t, "votes")
		order := rapid.Permutation(indexes(n)).Draw(t, "order")
		verdict, granted := judge(n, votes, order)
		if granted != (verdict == won) {
			t.Fatalf("redsync grants: %v, the call's verdict: %v", granted, verdict)
		}
		if want := finalVerdict(votes); verdict != want {
			t.Fatalf("%v, want %v", verdict, want)
		}
	})
}

func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

var errBroken = errors.New("broken")

// judge plays the nodes' answers, and returns the call's verdict and whether
// redsync would have granted.
func judge(n int, votes []vote, order []int) (outcome, bool) {
	r := newRedlock(new(node.Set), Config{Unguarded: true}.withDefaults())
	r.redsync = redsyncOver(n)
	c := newCall(opAcquire, make([]*node.Node, n), new(timers), func(_ *slot, value any) (vote, error) {
		if value == nil {
			return failed, errBroken
		}
		return value.(vote), nil
	})
	c.started, c.sent = true, true // the answers come from here
	go func() {
		for _, i := range order {
			if votes[i] == failed {
				c.slots[i].Reply(nil, nil, errBroken)
				continue
			}
			c.slots[i].Reply(nil, votes[i], nil)
		}
	}()
	_ = c.decide(context.Background(), time.Minute)
	return c.outcome(), r.viaRedsync(c, "k", time.Minute) == nil
}

// TestPlainAcquireAsksWhose: an unguarded acquire is a plain SET; one that
// finds a lock learns whose it is, and it may be its own, sent before.
func TestPlainAcquireAsksWhose(t *testing.T) {
	servers := testenv.Redis(t, 3)
	r := locker(t, clientsOf(servers), Config{Unguarded: true})
	key, token := r.key("x"), newToken()
	value := valueOf(token, "me", 0)
	for _, s := range servers[:2] { // the first sending, whose replies were lost
		must(t, s.Client().Set(t.Context(), key, value, time.Minute).Err())
	}
	own := r.acquireCall("x", token, value, time.Minute)
	must(t, own.decide(t.Context(), time.Minute))
	must(t, copies(t, servers, key, 2))
	other := r.acquireCall("x", newToken(), valueOf(newToken(), "you", 0), time.Minute)
	if err := other.decide(t.Context(), time.Minute); err == nil || other.outcome() != refused {
		t.Fatalf("another's try: %v, %v", err, other.outcome())
	}
	told := 0
	for _, e := range other.causes() {
		if errors.Is(e.Err, ErrTaken) && e.Holder == "me" {
			told++
		} else if !errors.Is(e.Err, errNoAnswer) {
			t.Errorf("node %d: %v, held by %q", e.Index, e.Err, e.Holder)
		}
	}
	if told < 2 {
		t.Errorf("%d nodes told who holds the lock", told)
	}
}

func TestRankedFence(t *testing.T) {
	for _, c := range []struct {
		counters []int64
		n        int
		want     int64
	}{
		{[]int64{7}, 1, 7},
		{[]int64{7, 9}, 3, 9},
		{[]int64{7, 9, 8}, 3, 8},
		{[]int64{5, 9, 7}, 5, 9},
		{[]int64{5, 9, 7, 8}, 5, 8},
		{[]int64{5, 9, 7, 8, 6}, 5, 7},
	} {
		if got := rankedFence(grantsAt(c.counters), c.n); got != c.want {
			t.Errorf("rankedFence(%v of %d) = %d, want %d", c.counters, c.n, got, c.want)
		}
	}
}

func grantsAt(counters []int64) []grant {
	list := make([]grant, len(counters))
	for i, c := range counters {
		list[i] = grant{i, c}
	}
	return list
}

// TestFenceGrowsWhateverAnswers is the argument of fence.go as a property:
// whatever nodes grant and when, and whatever other locks do in between, a fence
// is larger than every one handed out before.
func TestFenceGrowsWhateverAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{3, 5, 7}).Draw(t, "nodes")
		quorum := n/2 + 1
		counters := make([]int64, n)
		others := func() { // locks of other names, or that fail
			for i := range counters {
				counters[i] += int64(rapid.IntRange(0, 3).Draw(t, "drift"))
			}
		}
		grantOn := func(nodes []int) (list []grant) {
			for _, i := range nodes {
				counters[i]++
				list = append(list, grant{i, counters[i]})
			}
			return list
		}
		var last int64
		var early []grant // what the next lock was granted while this one was held
		for range rapid.IntRange(1, 20).Draw(t, "locks") {
			others()
			order := rapid.Permutation(without(indexes(n), early)).Draw(t, "order")
			k := rapid.IntRange(quorum-len(early), len(order)).Draw(t, "grants")
			others()
			grants := append(early, grantOn(order[:k])...)
			// The rest may vote for a rival meanwhile.
			rest := rapid.Permutation(order[k:]).Draw(t, "rest")
			early = grantOn(rest[:rapid.IntRange(0, min(len(rest), n-quorum)).Draw(t, "early")])
			others()
			fence := rankedFence(grants, n)
			if fence <= last {
				t.Fatalf("fence %d after %d: %v", fence, last, counters)
			}
			last = fence
			// Known to a majority of those that granted, or written back to one.
			for _, g := range rapid.Permutation(grants).Draw(t, "written back")[:quorum] {
				counters[g.node] = max(counters[g.node], fence)
			}
		}
	})
}

// without leaves out the nodes that have granted.
func without(nodes []int, grants []grant) []int {
	return slices.DeleteFunc(nodes, func(i int) bool {
		return slices.ContainsFunc(grants, func(g grant) bool { return g.node == i })
	})
}
