package lock

import (
	"errors"
	"time"

	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/internal/node"
)

const (
	// undoFor is how long a node that does not answer is owed a clean-up. A
	// command that it had already received takes effect when it wakes up, and
	// then holds the lock for one TTL.
	undoFor = 10 * time.Minute
	// A clean-up that finds nothing may have overtaken what it is to undo, on
	// another connection: it comes back a few times.
	undoAgain = 250 * time.Millisecond
	undoTries = 4
)

// cleanup removes one try's lock from one node, however long that takes, unless
// too many wait for the node: the oldest, whose TTLs end first, are dropped then.
// It names the try's token, so it can never touch a later one.
type cleanup struct {
	node  *node.Node
	op    node.Op
	until time.Time
	tries int // left, when it finds nothing
}

// clean starts a clean-up. Doubtful: it is not known whether, or when, the
// node makes the lock.
func (r *Redlock) clean(n *node.Node, key, token string, doubtful bool) {
	if failpoint.Mutant("cleanup-without-try") {
		token = ""
	}
	c := newCleanup(n, releaseCommand(key, token))
	if doubtful {
		c.tries = undoTries
	}
	c.send()
}

func newCleanup(n *node.Node, command []any) *cleanup {
	c := &cleanup{node: n, until: time.Now().Add(undoFor)}
	c.op.Script, c.op.Args, c.op.To = releaseScript, command, c
	return c
}

func (c *cleanup) send() {
	if c.node.Down() != nil {
		c.node.Later(&c.op)
		return
	}
	c.node.Send(&c.op)
}

// Reply implements node.Receiver.
func (c *cleanup) Reply(_ *node.Op, value any, err error) {
	switch {
	case err == nil && value == replyMissing && c.tries > 0:
		c.tries--
		time.AfterFunc(undoAgain, func() { c.node.Send(&c.op) })
	case err == nil, isClosed(err), errors.Is(err, node.ErrDropped), time.Now().After(c.until):
	case isOverloaded(err), node.Answered(err):
		time.AfterFunc(undoAgain, func() { c.node.Send(&c.op) })
	default:
		c.node.Later(&c.op)
	}
}
