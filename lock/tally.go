package lock

import (
	"math"

	"github.com/redfence/redfence/internal/node"
)

// A guarded acquire is a script of three commands. Where several are on their
// way to a node at the same time they are plain SETs, and one script at the
// pipeline's end looks at the node's standing and counts for all of them: their
// tally. A SET that has no tally's word, or finds a lock, is followed by the
// script, which knows its own lock again.
//
// The order is safe: the node counts after it has granted, and before anybody
// hears of it. A node that has lost its memory before the tally has lost its
// marker too, and those SETs are no votes.
type tally struct {
	guard *guard
	node  int
	op    node.Op
	// lowest is the lowest fence that the node is asked for, and first what it
	// gave; 0: nothing was counted.
	lowest, first int64
}

// tally prepares the guarded acquires among the commands of a pipeline and
// returns what is to follow them; nil: nothing. It runs on the node's goroutine.
func (g *guard) tally(n *node.Node, ops []*node.Op) *node.Op {
	t := &tally{guard: g, node: n.Index(), lowest: math.MaxInt64}
	var one *slot
	count, highest := 0, int64(0)
	for _, op := range ops {
		s, ok := op.To.(*slot)
		if !ok || !s.plainUnderGuard() {
			continue
		}
		one, s.tally = s, t
		count++
		t.lowest, highest = min(t.lowest, s.call.proposed), max(highest, s.call.proposed)
	}
	switch count {
	case 0:
		return nil
	case 1:
		one.tally = nil
		one.useScript()
		return nil
	}
	t.op.Script, t.op.To = countScript, t
	t.op.Args = countScript.Command([]string{markerKey, counterKey}, "", t.lowest, highest)
	return &t.op
}

// Bind implements node.Binder.
func (t *tally) Bind(op *node.Op) {
	t.first = 0
	op.Args[argv(2)] = t.guard.marker(t.node)
}

// Peek implements node.Peeker: the tally is known before the grants are.
func (t *tally) Peek(op *node.Op, value any) {
	if first, ok := value.(int64); ok {
		t.first = first
		t.guard.reached(t.node, t.fence(op.Args[argv(2)+2].(int64)))
	}
}

// fence is what has come of a proposal: the node keeps their distances.
func (t *tally) fence(proposed int64) int64 { return t.first + proposed - t.lowest }

// Reply implements node.Receiver.
func (t *tally) Reply(*node.Op, any, error) {}

// plainUnderGuard is true of a guarded acquire that is a plain SET so far.
func (s *slot) plainUnderGuard() bool {
	return s.call.guard != nil && s.call.kind == opAcquire && s.op.Script == nil
}

// useScript makes the script of a plain SET.
func (s *slot) useScript() {
	key, value, ttl := s.op.Args[1].(string), s.op.Args[2], s.op.Args[4]
	s.op.Script = acquireGuardedScript
	s.op.Args = acquireGuardedScript.Command([]string{key, markerKey, counterKey}, value, ttl, "", s.call.proposed)
}

// countedIn takes the answer to a plain SET: a grant that was counted is a vote,
// the script says what anything else is.
func (s *slot) countedIn(t *tally, value any) {
	granted := value == "OK"
	if granted && t.first > 0 {
		s.voted(t.fence(s.call.proposed), nil)
		return
	}
	s.call.mu.Lock()
	over := s.call.gaveUp || s.call.retired
	s.afterwards, s.placed = true, granted
	s.call.mu.Unlock()
	if over {
		s.voted(value, nil)
		return
	}
	s.useScript()
	s.node().Send(&s.op)
}
