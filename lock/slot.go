package lock

import "github.com/redfence/redfence/internal/node"

// A slot is one node's part in a call. It is also the connection that redsync
// gets for that node and call (pool.go).
type slot struct {
	call  *call
	i     int // the node's place
	op    node.Op
	vote  vote
	err   error // why it failed
	reply reply

	seeded bool // the lock was put back there
	asked  bool // a second question followed the command
	spare  bool // not asked yet
	// afterwards: it was asked after the others.
	afterwards bool
	clear      bool // the node has certainly not granted anything
	again      bool // the release was sent twice

	// Of a plain SET under guard (tally.go).
	tally  *tally
	placed bool // it was granted, and did not count
}

// reply is what a node told beside its vote.
type reply struct {
	fence  int64
	holder string
	ttlMS  int64
	// missing: the node has no such lock.
	missing bool
}

func (s *slot) node() *node.Node { return s.call.nodes[s.i] }

// Reply implements node.Receiver.
func (s *slot) Reply(_ *node.Op, value any, err error) {
	if t := s.tally; t != nil {
		s.tally = nil
		if err == nil {
			s.countedIn(t, value)
			return
		}
	}
	if err == nil && s.call.guard != nil && isMismatch(value) && !s.asked {
		s.ask()
		return
	}
	if err == nil && value == nil && s.op.Script == nil && s.plainAcquire() {
		s.whose()
		return
	}
	if s.call.kind == opRelease && uncertain(err) && !s.again {
		s.again = true // a node that stalled for a moment gets it once more
		s.node().Send(&s.op)
		return
	}
	s.voted(value, err)
}

// plainAcquire reports whether the slot's command is a SET whose refusal is to
// be looked into.
func (s *slot) plainAcquire() bool {
	return s.call.kind == opAcquire && s.call.guard == nil && (!s.call.brief || s.op.Resent())
}

// uncertain says whether a command that failed may have been executed, or may
// be yet.
func uncertain(err error) bool { return err != nil && !node.Unsent(err) && !node.Answered(err) }

// voted counts what the node has said.
func (s *slot) voted(value any, err error) {
	c := s.call
	c.mu.Lock()
	if err == nil {
		s.vote, err = c.read(s, value)
	} else {
		s.vote = failed
	}
	s.err = err
	switch s.vote {
	case yes:
		c.votes.yes++
	case no:
		c.votes.no++
	default:
		c.votes.failed++
	}
	if c.complete != nil && c.votes.yes+c.votes.no+c.votes.failed == len(c.slots) {
		close(c.complete)
	}
	late := c.result != undecided && c.late != nil
	if c.sent {
		c.settle(c.votes.decide(len(c.slots)))
	}
	stuck := c.stuck()
	undo := c.undo != nil && s.mayHold() && (c.gaveUp || (c.retired && s.overtaken()))
	c.mu.Unlock()
	if stuck {
		c.askRest()
	}
	if undo {
		c.undo(s, s.vote == yes)
	}
	if late {
		c.late(s)
	}
	if s.vote == failed && c.failed != nil {
		c.failed(s)
	}
}

// mayHold says whether the node granted something, or may have.
func (s *slot) mayHold() bool {
	if s.clear {
		return false
	}
	return s.vote == yes || (s.vote == failed && uncertain(s.err))
}

// overtaken says whether a grant that comes after its lease has ended may have
// been executed after the release: not, when both went through the node's queue
// in this order and neither had to be sent again.
func (s *slot) overtaken() bool {
	return s.vote == failed || s.asked || s.afterwards || s.op.Resent()
}
