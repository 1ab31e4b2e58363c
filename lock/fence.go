package lock

import (
	"context"
	"strconv"

	"github.com/redfence/redfence/internal/node"
)

// A fence is the largest counter among the nodes that granted the lock. Before
// the lock is handed out, a majority must be known to have reached it: then
// the quorum of the next holder contains one of these, and its fence is
// larger. Nodes mostly tell so by themselves, because each answer to anybody
// of this process tells how far a node's counter is; else the fence is written
// back.


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
	op.Args[argv(3)+3] = g.top.Load()
}

// Peek implements node.Peeker.
func (s *slot) Peek(_ *node.Op, value any) {
	g := s.call.guard
	if text, ok := value.(string); ok && g != nil {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			g.reached(s.i, n)
		}
	}
}

const opRaise = "raise"

// fenceOf returns the fence of a call that was won, once a majority has
// reached it.
func (r *Redlock) fenceOf(ctx context.Context, name string, won *call) (int64, error) {
	fence := won.largestFence()
	if r.guard.knownTo(fence) >= r.set.Quorum() {
		return fence, nil
	}
	c := r.raiseCall(fence)
	if err := r.direct(ctx, c); err != nil {
		return 0, failure(opAcquire, name, c, ctx.Err())
	}
	return fence, nil
}

func (c *call) largestFence() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fence int64
	for i := range c.slots {
		if s := &c.slots[i]; s.vote == yes {
			fence = max(fence, s.reply.fence)
		}
	}
	return fence
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
	c := newCall(opRaise, r.nodes, func(s *slot, value any) (vote, error) {
		text, _ := value.(string)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < fence {
			return failed, errUnexpected
		}
		return yes, nil
	})
	c.guard = r.guard
	for i := range c.slots {
		s := &c.slots[i]
		s.op.Script = raiseScript
		s.op.Args = raiseScript.Command([]string{markerKey, counterKey}, "", strconv.FormatInt(fence, 10))
	}
	return c
}
