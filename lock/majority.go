package lock

import "github.com/redfence/redfence/internal/node"

// An unguarded acquire asks a majority first, and the rest of the nodes only when
// that has not granted: a majority decides, and the votes of the others would
// change nothing (in the literature on Paxos: a thrifty quorum; Moraru, Andersen
// and Kaminsky, "There Is More Consensus in Egalitarian Parliaments", SOSP 2013).
// A lease that lasts is told to the rest soon, so that a node that fails later
// does not end it.
//
// A lock on a bare majority is lost to a rival as soon as one of its nodes
// forgets it. That is for locks that something else arbitrates: a guarded acquire
// asks every node at once.

// spreadShare is the part of its TTL after which a lease that is still held is
// told to the rest.
const spreadShare = 10

// hedgeShare is the part of NodeTimeout after which a majority that is still
// silent is helped out by the rest.
const hedgeShare = 8

// spareRest leaves all but a majority of the nodes out of the call for now: those
// that would keep it waiting, and then those that come last from the name's home
// on. Rivals ask the same nodes, and so mostly get a clear verdict.
func (r *Redlock) spareRest(c *call, name string) {
	n := len(c.slots)
	rest, home := n-r.set.Quorum(), node.Home(name, n)
	for _, prompt := range []bool{false, true} {
		for last := n - 1; last >= 0 && c.spares < rest; last-- {
			i := (home + last) % n
			if s := &c.slots[i]; !s.spare && r.nodes[i].Prompt() == prompt {
				s.spare = true
				c.spares++
			}
		}
	}
}

// askRest asks the nodes that were spared, unless the call has been given up or
// its lease has ended: then nobody asks them any more.
func (c *call) askRest() {
	c.mu.Lock()
	if c.spares == 0 || c.gaveUp || c.retired {
		c.mu.Unlock()
		return
	}
	c.spares = 0
	var rest []*slot
	for i := range c.slots {
		if s := &c.slots[i]; s.spare {
			s.spare, s.afterwards = false, true
			rest = append(rest, s)
		}
	}
	c.mu.Unlock()
	for _, s := range rest {
		s.node().Send(&s.op)
	}
}

// stuck reports whether everybody who was asked has voted and the verdict is
// still open. c.mu is held.
func (c *call) stuck() bool {
	v := c.votes
	return c.sent && c.result == undecided && c.spares > 0 && v.yes+v.no+v.failed == len(c.slots)-c.spares
}

// leaveOutOf leaves the nodes that certainly hold nothing of an acquire out of its
// release: those that it has spared, and those to which it was never sent. What
// they are sent for nothing would wait in front of what they are owed. The acquire
// has been retired; seeded are the nodes on which an extension has put the lock
// back.
func (c *call) leaveOutOf(release *call, seeded uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.slots {
		switch was, s := &c.slots[i], &release.slots[i]; {
		case !was.holdsNothing(seeded):
		case was.spare:
			s.vote = yes
			release.votes.yes++
		default:
			s.vote, s.err, s.clear = failed, was.err, true
			release.votes.failed++
		}
	}
}

// mayHold returns the nodes that may hold the lock of a retired acquire.
func (c *call) mayHold(seeded uint64) []*node.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*node.Node, 0, len(c.slots)-c.spares)
	for i := range c.slots {
		if !c.slots[i].holdsNothing(seeded) {
			list = append(list, c.nodes[i])
		}
	}
	return list
}

// holdsNothing is true of a node that was not asked, or not reached. The call's
// mutex is held.
func (s *slot) holdsNothing(seeded uint64) bool {
	return seeded&(1<<s.i) == 0 && (s.spare || s.vote == failed && (s.clear || node.Unsent(s.err)))
}
