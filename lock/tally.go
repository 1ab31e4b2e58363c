package lock

import "github.com/redfence/redfence/internal/node"

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
	first int64 // fence of the first; 0: nothing was counted
}

// tally turns the guarded acquires among the commands of a pipeline into plain
// ones and returns what is to follow them; nil: nothing. It runs on the node's
// goroutine.
func (g *guard) tally(n *node.Node, ops []*node.Op) *node.Op {
	var first *slot
	t, count := &tally{guard: g, node: n.Index()}, 0
	for _, op := range ops {
		s, ok := op.To.(*slot)
		if !ok || !s.plainUnderGuard() {
			continue
		}
		if first == nil {
			first = s
		}
		s.tally, s.place = t, count
		count++
	}
	switch count {
	case 0:
		return nil
	case 1:
		first.tally = nil
		first.useScript()
		return nil
	}
	t.op.Script, t.op.To = countScript, t
	t.op.Args = countScript.Command([]string{markerKey, counterKey}, "", count, first.call.top)
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
		t.guard.reached(t.node, first+int64(op.Args[argv(2)+1].(int))-1)
	}
}

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
	s.op.Args = acquireGuardedScript.Command([]string{key, markerKey, counterKey}, value, ttl, "", s.call.top)
}

// countedIn takes the answer to a plain SET: a grant that was counted is a vote,
// the script says what anything else is.
func (s *slot) countedIn(t *tally, value any) {
	granted := value == "OK"
	if granted && t.first > 0 {
		s.voted(t.first+int64(s.place), nil)
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
