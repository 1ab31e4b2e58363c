package lock

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redfence/redfence/internal/node"
)

// Each node counts the locks that it grants. A fence is handed out once a
// majority of the counters is known to have reached it. So among the k nodes
// that granted the next lock, k + majority - n at least had reached the fence
// of any earlier one before they counted on, and the counter with that rank,
// from the top, is larger: that is the next fence.
//
// With the answers of all n nodes the rank is the majority's, and nothing more
// has to be known; with those of a bare majority it is the largest, and the
// others may have yet to reach it. Rounds are queued at all nodes in one order,
// so a single process meets equal counters; with several the counters run apart
// a little. Mostly the others tell by themselves that they have reached the
// fence, because each answer to anybody of this process tells how far a node's
// counter is. Else the fence is written back.

// patience is how long an acquire waits for the answers of the other nodes
// before it writes its fence back.
const patience = 2 * time.Millisecond

// Bind implements node.Binder: it completes a guarded command with what is
// known of the node over the connection that is about to carry it.
func (s *slot) Bind(op *node.Op) {
	g := s.call.guard
	if g == nil {
		return
	}
	if s.call.kind == opRaise {
		op.Args[argv(2)] = g.marker(s.i)
		return
	}
	op.Args[argv(3)+2] = g.marker(s.i)
}

// Peek implements node.Peeker.
func (s *slot) Peek(_ *node.Op, value any) {
	g := s.call.guard
	if g == nil {
		return
	}
	switch v := value.(type) {
	case int64:
		g.reached(s.i, v)
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			g.reached(s.i, n)
		}
	}
}

const opRaise = "raise"

// fenceOf returns the fence of a call that was won, once a majority has
// reached it.
func (r *Redlock) fenceOf(ctx context.Context, name string, won *call) (int64, error) {
	if fence, ok := r.knownFence(won); ok {
		return fence, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-won.complete:
	case <-timer.C:
	case <-ctx.Done():
	}
	fence, ok := r.knownFence(won)
	if ok {
		return fence, nil
	}
	c := r.raiseCall(fence)
	if err := c.decide(ctx, r.cfg.NodeTimeout); err != nil {
		return 0, failure(opAcquire, name, c, ctx.Err())
	}
	return fence, nil
}

// knownFence returns the fence that the answers so far make, and whether a
// majority is known to have reached it.
func (r *Redlock) knownFence(won *call) (fence int64, known bool) {
	fence = rankedFence(won.fences(), len(r.nodes))
	return fence, r.guard.knownTo(fence) >= r.set.Quorum()
}

// rankedFence picks the fence from the counters of the nodes that granted.
func rankedFence(counters []int64, n int) int64 {
	slices.Sort(counters)
	rank := len(counters) + n/2 + 1 - n
	return counters[len(counters)-rank]
}

// fences returns the counters of the nodes that granted.
func (c *call) fences() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]int64, 0, len(c.slots))
	for i := range c.slots {
		if s := &c.slots[i]; s.vote == yes {
			list = append(list, s.reply.fence)
		}
	}
	return list
}

// knownTo counts the nodes that have reached a fence for certain.
func (g *guard) knownTo(fence int64) int {
	n := 0
	for i := range g.standing {
		if g.standing[i].counter.Load() >= fence {
			n++
		}
	}
	return n
}

func (r *Redlock) raiseCall(fence int64) *call {
	c := r.newCall(opRaise, func(s *slot, value any) (vote, error) {
		text, _ := value.(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < fence {
			return failed, errUnexpected
		}
		return yes, nil
	})
	c.guard = r.guard
	for i := range c.slots { // only nodes that are not known to have reached it
		if r.guard.standing[i].counter.Load() >= fence {
			c.slots[i].vote = yes
			c.votes.yes++
		}
	}
	c.commands(raiseScript, raiseScript.Command([]string{markerKey, counterKey}, "", strconv.FormatInt(fence, 10)))
	return c
}
