package lock

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/internal/node"
)

// A vote is what one node has said in one call.
type vote uint8

const (
	out vote = iota
	yes
	no
	failed
)

// errNoAnswer is the cause of a node that was still out when its call was over.
var errNoAnswer = errors.New("no answer within the node deadline")

// A reader turns the answer of a node into its vote. It runs under the call's
// mutex and may keep what it reads in the slot.
type reader func(s *slot, value any) (vote, error)

// A call is one command sent to all nodes, or to a majority first (majority.go),
// and what has come back. It is decided as soon as the verdict is certain;
// answers that come later are still read, and a grant that arrives after the call
// was given up is undone.
type call struct {
	kind   string // opAcquire, opExtend, opRelease, opRaise
	nodes  []*node.Node
	read   reader
	timers *timers
	// undo, if set, is called outside the mutex for each node that granted,
	// or may have granted, something to a call that was given up.
	undo func(s *slot, certain bool)
	// late, if set, is called outside the mutex for each vote that comes
	// after the verdict.
	late func(s *slot)
	// failed, if set, is called outside the mutex for each node that gave no
	// answer, in time or not.
	failed func(s *slot)
	guard  *guard // of a guarded acquire; nil: none
	// proposed is the fence that the nodes are asked for; one that has counted
	// beyond it already gives a larger one.
	proposed int64
	brief    bool // whoever is refused does not ask who holds the lock
	// complete, if set, is closed when every node has voted.
	complete chan struct{}

	mu      sync.Mutex
	votes   count
	spares  int // nodes that have not been asked yet
	result  outcome
	started bool
	sent    bool
	gaveUp  bool
	retired bool // won, and its lease has ended
	decided chan struct{}
	slots   []slot
}

func (r *Redlock) newCall(kind string, read reader) *call {
	return newCall(kind, r.nodes, &r.timers, read)
}

func newCall(kind string, nodes []*node.Node, t *timers, read reader) *call {
	c := &call{kind: kind, nodes: nodes, timers: t, read: read, decided: make(chan struct{}), slots: make([]slot, len(nodes))}
	for i := range c.slots {
		s := &c.slots[i]
		s.call, s.i, s.op.To = c, i, s
	}
	return c
}

// command gives every node the same command.
func (c *call) command(script *node.Script, args []any) {
	for i := range c.slots {
		c.slots[i].op.Script, c.slots[i].op.Args = script, args
	}
}

// commands gives every node a command of its own that begins as args.
func (c *call) commands(script *node.Script, args []any) {
	k := len(args)
	all := make([]any, 0, k*len(c.slots))
	for i := range c.slots {
		all = append(all, args...)
		c.slots[i].op.Script, c.slots[i].op.Args = script, all[i*k:(i+1)*k:(i+1)*k]
	}
}

// send sends the round, once, whoever asks first. No verdict stands before
// every node has its command in its queue, so that a release that follows a
// verdict also follows the acquire, on each node.
func (c *call) send() {
	c.mu.Lock()
	first := !c.started
	c.started = true
	c.mu.Unlock()
	if !first {
		return
	}
	if c.kind == opAcquire && failpoint.Chance("bare-majority") {
		c.leaveOut()
	}
	if c.guard != nil {
		c.guard.order.Lock()
		c.proposed = c.guard.propose()
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.vote == out && !s.spare {
			c.nodes[i].Send(&s.op)
		}
	}
	if c.guard != nil {
		c.guard.order.Unlock()
	}
	c.mu.Lock()
	c.sent = true
	c.settle(c.votes.decide(len(c.slots)))
	stuck := c.stuck()
	c.mu.Unlock()
	if stuck { // the nodes have refused at once
		c.askRest()
	}
}

// leaveOut lets a call ask a bare majority only, for chaos: rivals that one
// meets are seldom met by a call of all nodes.
func (c *call) leaveOut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spares = 0
	for i := range c.slots {
		c.slots[i].spare = false
	}
	for _, i := range rand.Perm(len(c.slots))[len(c.slots)/2+1:] {
		if s := &c.slots[i]; s.vote == out {
			s.vote, s.err, s.clear = failed, errNoAnswer, true
			c.votes.failed++
		}
	}
}

// settle records the verdict; the first one stands.
func (c *call) settle(o outcome) {
	if c.result == undecided && o != undecided {
		c.result = o
		close(c.decided)
	}
}

// expire ends the call at its deadline: nodes that are still out count as
// failed.
func (c *call) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.votes
	v.failed += len(c.slots) - v.yes - v.no - v.failed
	c.settle(v.decide(len(c.slots)))
}

// cancel ends the call because its caller has gone.
func (c *call) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(cancelled)
}

// giveUp undoes what the call has done and will still do. It does not wait.
func (c *call) giveUp() {
	c.mu.Lock()
	if c.gaveUp {
		c.mu.Unlock()
		return
	}
	c.gaveUp = true
	c.settle(cancelled)
	var hold []*slot
	for i := range c.slots {
		s := &c.slots[i]
		if s.vote == out {
			s.op.Cancel()
		} else if s.mayHold() {
			hold = append(hold, s)
		}
	}
	c.mu.Unlock()
	if c.undo == nil {
		return
	}
	for _, s := range hold {
		c.undo(s, s.vote == yes)
	}
}

// retire ends a call that was won, when its lease has ended: commands that
// are still queued are taken back, and what may arrive late is undone. The
// nodes that granted are the release's business.
func (c *call) retire() {
	c.mu.Lock()
	c.retired = true
	var doubtful []*slot
	for i := range c.slots {
		s := &c.slots[i]
		switch {
		case s.vote == out:
			s.op.Cancel()
		case s.vote == failed && s.mayHold():
			doubtful = append(doubtful, s)
		}
	}
	c.mu.Unlock()
	for _, s := range doubtful {
		c.undo(s, false)
	}
}

// outcome returns the verdict, or undecided.
func (c *call) outcome() outcome {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

// causes lists what each node that did not say yes has said.
func (c *call) causes() []NodeError {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []NodeError
	for i := range c.slots {
		s := &c.slots[i]
		e := NodeError{Node: c.nodes[i].Addr(), Index: i}
		switch s.vote {
		case yes:
			continue
		case no:
			e.Err = ErrLost
			if c.kind == opAcquire {
				e.Err, e.Holder = ErrTaken, ownerOf(s.reply.holder)
			}
		case failed:
			e.Err = s.err
		case out:
			if s.spare {
				continue
			}
			e.Err = errNoAnswer
		}
		list = append(list, e)
	}
	return list
}
