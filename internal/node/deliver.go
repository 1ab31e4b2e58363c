package node

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// deliver hands the answers out. With an error, commands that got an answer
// of the server before the connection broke still get it.
func (n *Node) deliver(ops []*Op, failure error) {
	missing := false
	for _, op := range ops {
		if op.cmd.Err() == nil {
			if p, ok := op.To.(Peeker); ok {
				p.Peek(op, op.cmd.Val())
			}
		} else if n.inFull(op) {
			missing = true
		}
	}
	if missing {
		n.putBack(ops)
	}
	for _, op := range ops {
		cmd := op.cmd
		op.cmd = nil
		switch err := cmd.Err(); {
		case op.state.Load() == queued: // put back
		case err == nil || err == redis.Nil:
			n.answer(op, cmd.Val(), nil)
		case Answered(err) || failure == nil:
			n.answer(op, nil, err)
		default:
			n.answer(op, nil, failure)
		}
	}
}

func (n *Node) answer(op *Op, value any, err error) {
	op.state.Store(idle)
	op.To.Reply(op, value, err)
}

// inFull rewrites a command whose script the server does not know.
func (n *Node) inFull(op *Op) bool {
	if op.Script == nil || op.full || !strings.HasPrefix(op.cmd.Err().Error(), "NOSCRIPT") {
		return false
	}
	op.Args, op.full = op.Script.inFull(op.Args), true
	op.state.Store(queued)
	return true
}

// putBack queues the rewritten commands before everything else, in order.
func (n *Node) putBack(ops []*Op) {
	var front []*Op
	for _, op := range ops {
		if op.state.Load() == queued {
			front = append(front, op)
		}
	}
	n.mu.Lock()
	n.queue = append(front, n.queue...)
	n.mu.Unlock()
}
