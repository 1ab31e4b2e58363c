package lock

import (
	"math/bits"

	"github.com/redfence/redfence/internal/node"
)

// topic is one lock that is waited for. The subscriber's mutex guards it.
type topic struct {
	s        *subscriber
	key      string
	watchers []chan struct{}
	lasting  int               // of the watchers, those of watch
	from     int               // the node that next chose
	asked    uint64            // nodes that owe an answer or a release
	acked    uint64            // nodes that will tell of a release
	free     uint64            // nodes that had no such lock when the last one of watch came
	heard    map[string]uint64 // token released → nodes that said so
}

const rememberTokens = 16

// released signals when a majority, or all nodes that will tell, have told of
// the same release: sooner, a try would find the lock half released. Who looks
// elsewhere is signalled at once. The node has forgotten that it was asked, so
// it is asked again for those who go on.
func (t *topic) released(i int, token string) []*ask {
	bit := uint64(1) << i
	t.asked &^= bit
	if t.lasting == 0 {
		t.signal()
		return nil
	}
	if t.heard == nil || len(t.heard) >= rememberTokens {
		t.heard = map[string]uint64{}
	}
	t.heard[token] |= bit
	t.acked |= bit
	if bits.OnesCount64(t.heard[token]) == min(t.s.quorum, bits.OnesCount64(t.acked)) {
		t.signal()
	}
	return t.ask(bit, false)
}

// answered takes what a node says that was asked for the first time: a lock
// that a majority does not have may have been released before.
func (t *topic) answered(i int, held bool) {
	bit := uint64(1) << i
	switch {
	case held:
		t.acked |= bit
	case t.lasting == 0:
		t.asked &^= bit // whoever comes next asks anew
		t.signal()
	default:
		t.acked |= bit
		t.free |= bit
		if bits.OnesCount64(t.free) == t.s.quorum {
			t.signal()
		}
	}
}

func (t *topic) signal() {
	for _, c := range t.watchers {
		signal(c)
	}
}

// signal wakes whoever reads c, once.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// ask prepares the question to each of the nodes. The caller sends it without
// the mutex.
func (t *topic) ask(nodes uint64, first bool) []*ask {
	t.asked |= nodes
	var list []*ask
	for ; nodes != 0; nodes &= nodes - 1 {
		list = append(list, &ask{t: t, i: bits.TrailingZeros64(nodes), first: first})
	}
	return list
}

// An ask asks one node to tell this process of the next release of a lock.
type ask struct {
	t     *topic
	i     int
	first bool
	op    node.Op
}

func send(list []*ask) {
	for _, a := range list {
		s := a.t.s
		a.op.Script, a.op.To = askScript, a
		a.op.Args = askScript.Command([]string{a.t.key, askedKey(a.t.key)}, s.channel, askFor.Milliseconds())
		s.nodes[a.i].Send(&a.op)
	}
}

// Reply implements node.Receiver.
func (a *ask) Reply(_ *node.Op, value any, err error) {
	a.t.s.mu.Lock()
	defer a.t.s.mu.Unlock()
	switch {
	case err != nil: // waiters poll
		a.t.asked &^= 1 << a.i
	case a.first:
		a.t.answered(a.i, value == int64(1))
	}
}
