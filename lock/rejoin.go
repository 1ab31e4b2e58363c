package lock

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

// rejoin lets a node whose time under guard is up vote again, once its counter
// has caught up. It does not wait.
//
// The counter has to reach every fence that was handed out. Each of those was
// known to a majority, so a majority of the others in good standing tells of
// it. When it is certain that there is none, because that many nodes have lost
// their memory, the promise about fences is void, and the node takes what the
// others have.
func (g *guard) rejoin(i int) {
	if !g.standing[i].rejoins.CompareAndSwap(false, true) {
		return
	}
	c := &census{g: g, i: i, out: len(g.nodes) - 1}
	if c.out == 0 {
		c.finish()
		return
	}
	for other := range g.nodes {
		if other != i {
			g.ask(other, false, c.add)
		}
	}
}

// census counts the standing of the others.
type census struct {
	g *guard
	i int // the node that wants to rejoin

	mu        sync.Mutex
	out       int
	good, bad int
	top       int64
}

func (c *census) add(counter int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out--
	var under *GuardError
	switch {
	case err == nil:
		c.good++
		c.top = max(c.top, counter)
	case errors.As(err, &under):
		c.bad++
		c.top = max(c.top, counter)
	}
	if c.out == 0 {
		c.finish()
	}
}

// finish decides. Nodes that did not answer count neither way.
func (c *census) finish() {
	if !enough(len(c.g.nodes), c.good, c.bad) {
		c.g.standing[c.i].rejoins.Store(false)
		return
	}
	g, i := c.g, c.i
	m := &rejoining{g: g, i: i, nonce: newNonce()}
	m.op.Script = rejoinScript
	m.op.Args = rejoinScript.Command([]string{markerKey, counterKey},
		"", g.maxTTL.Milliseconds(), "", strconv.FormatInt(c.top, 10))
	m.op.To = m
	g.nodes[i].Send(&m.op)
}

// enough says whether a node of n may catch up with the good ones among the
// others, when so many are in good standing and so many are known to have lost
// their memory.
func enough(n, good, bad int) bool {
	quorum := n/2 + 1
	return good >= quorum || bad >= n-quorum
}

type rejoining struct {
	g     *guard
	i     int
	nonce string
	op    node.Op
}

// Bind implements node.Binder.
func (m *rejoining) Bind(op *node.Op) {
	run := m.g.run(m.i)
	op.Args[argv(2)] = run
	op.Args[argv(2)+2] = m.g.markerOf(run, m.nonce)
}

// Reply implements node.Receiver.
func (m *rejoining) Reply(_ *node.Op, value any, err error) {
	m.g.standing[m.i].rejoins.Store(false)
	if err == nil && value == replyDone {
		m.g.observer.Observe(observe.NodeRejoined{Node: m.g.nodes[m.i].Addr()})
	}
}

// markerOf is the marker of a node in good standing.
func (g *guard) markerOf(run, nonce string) string {
	return fmt.Sprintf("ok %s %d %s", run, g.maxTTL.Milliseconds(), nonce)
}

func newNonce() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails: it ends the process instead
	return hex.EncodeToString(raw[:])
}
