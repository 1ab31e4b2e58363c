package lock

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/redfence/redfence/internal/node"
)

// Each node counts the locks that it grants. A fence is handed out once a
// majority of the nodes that granted its lock is known to have reached it. So
// among the k nodes that granted the next lock of the name, k + majority - n at
// least had reached the fence of any earlier one before they counted on, and the
// counter with that rank, from the top, is larger: that is the next fence.
//
// Nodes that did not grant the lock count for nothing, however far they are: one
// of them may have granted it to a slow rival before it got there, and the rival's
// fence would come from before.
//
// With the grants of all n nodes the rank is the majority's, and nothing more
// has to be known; with those of a bare majority it is the largest, and the
// others may have yet to reach it. Rounds are queued at all nodes in one order, each
// with a fence that it proposes, so a single process meets equal counters; with
// several the counters run apart a little. Mostly the others tell by themselves that they have reached the
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
	if op.Script != nil {
		op.Args[argv(3)+2] = g.marker(s.i)
	}
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
	if fence, ok := r.knownFence(won.grants()); ok {
		return fence, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-won.complete:
	case <-timer.C:
	case <-ctx.Done():
	}
	grants := won.grants()
	fence, ok := r.knownFence(grants)
	if ok {
		return fence, nil
	}
	return fence, r.writeBack(ctx, name, fence, grants)
}

// reach makes every later lease of the name have a fence above this one.
func (h *held) reach(ctx context.Context, fence int64) error {
	if h.r.guard == nil || fence <= h.fence {
		return nil
	}
	grants := h.acquired.grants()
	if h.r.haveReached(grants, fence) {
		return nil
	}
	return h.r.writeBack(ctx, h.name, fence, grants)
}

// writeBack lets a majority of the nodes that granted reach a fence.
func (r *Redlock) writeBack(ctx context.Context, name string, fence int64, grants []grant) error {
	c := r.raiseCall(fence, grants)
	if err := c.decide(ctx, r.cfg.NodeTimeout); err != nil {
		return failure(opAcquire, name, c, ctx.Err())
	}
	return nil
}

// A grant is one node's, at a count of its own.
type grant struct {
	node    int
	counter int64
}

// grants returns those that the call has got.
func (c *call) grants() []grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]grant, 0, len(c.slots))
	for i := range c.slots {
		if s := &c.slots[i]; s.vote == yes {
			list = append(list, grant{i, s.reply.fence})
		}
	}
	return list
}

// knownFence returns the fence that a majority of grants makes, and whether a
// majority of those nodes is known to have reached it.
func (r *Redlock) knownFence(grants []grant) (fence int64, known bool) {
	fence = rankedFence(grants, len(r.nodes))
	return fence, r.haveReached(grants, fence)
}

// haveReached is true when a majority of the nodes that granted are known to have
// reached a fence.
func (r *Redlock) haveReached(grants []grant, fence int64) bool {
	n := 0
	for _, g := range grants {
		if r.guard.hasReached(g.node, fence) {
			n++
		}
	}
	return n >= r.set.Quorum()
}

// rankedFence picks the fence from the grants of n nodes.
func rankedFence(grants []grant, n int) int64 {
	slices.SortFunc(grants, func(a, b grant) int { return cmp.Compare(b.counter, a.counter) })
	rank := len(grants) + n/2 + 1 - n
	return grants[rank-1].counter
}

// hasReached is true of a node that has reached a fence for certain.
func (g *guard) hasReached(i int, fence int64) bool { return g.standing[i].counter.Load() >= fence }

var errHoldsNothing = errors.New("it has not granted the lock")

// raiseCall writes a fence back to the nodes that granted its lock.
func (r *Redlock) raiseCall(fence int64, grants []grant) *call {
	c := r.newCall(opRaise, func(s *slot, value any) (vote, error) {
		text, _ := value.(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < fence {
			return failed, errUnexpected
		}
		return yes, nil
	})
	c.guard = r.guard
	for i := range c.slots {
		c.slots[i].vote, c.slots[i].err = failed, errHoldsNothing
	}
	for _, g := range grants {
		c.slots[g.node].vote, c.slots[g.node].err = out, nil
		if r.guard.hasReached(g.node, fence) {
			c.slots[g.node].vote = yes
			c.votes.yes++
		}
	}
	c.votes.failed = len(c.slots) - len(grants)
	c.commands(raiseScript, raiseScript.Command([]string{markerKey, counterKey}, "", strconv.FormatInt(fence, 10)))
	return c
}
