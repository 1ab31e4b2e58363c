package node

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// deliver hands the answers out. With an error, commands that got an answer
// of the server before the connection broke still get it.
func (n *Node) deliver(ops []*Op, failure error) {
	missing := false
	for _, op := range ops {
		if replied(op.cmd) {
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
		case replied(cmd):
			n.answer(op, cmd.Val(), nil)
		case err != nil && (Answered(err) || failure == nil):
			n.answer(op, nil, err)
		case failure != nil:
			n.answer(op, nil, failure)
		default:
			n.answer(op, nil, errUnread)
		}
	}
}

// errUnread: the client says neither what the server answered nor why there is
// no answer.
var errUnread = errors.New("no answer was read")

// replied reports whether the command has its reply; a null one shows as an
// error. A command without either was never read.
func replied(cmd *redis.Cmd) bool {
	err := cmd.Err()
	return err == redis.Nil || err == nil && cmd.Val() != nil
}

func (n *Node) answer(op *Op, value any, err error) {
	op.state.Store(idle)
	op.To.Reply(op, value, err)
}

// inFull rewrites a command whose script the server does not know.
func (n *Node) inFull(op *Op) bool {
	err := op.cmd.Err()
	if err == nil || op.Script == nil || op.full || !strings.HasPrefix(err.Error(), "NOSCRIPT") {
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
