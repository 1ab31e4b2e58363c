package lock

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/node"
)

// A clean-up that comes late, for a try that lost, leaves the lock of a later
// one alone, whether it is certain of what it cleans up or not.
func TestLateCleanUpLeavesLaterTriesAlone(t *testing.T) {
	t.Parallel()
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{})
	held := take(t, r, "x")
	lost := newToken()
	for i, n := range r.nodes {
		r.clean(n, held.key, lost, i > 0)
	}
	for end := time.Now().Add(2 * undoAgain); time.Now().Before(end); {
		must(t, r.Probe(t.Context())) // follows the clean-ups in each node's queue
		for i, v := range holders(t, servers, held.key) {
			if !strings.HasPrefix(v, held.token) {
				t.Fatalf("the clean-up of another try has deleted the lock on node %d, which has %q", i, v)
			}
		}
	}
	must(t, held.Release(t.Context()))
}

// TestCloseEndsCleanUps: what is owed to a node that is down ends with the
// locker, instead of being tried again and again.
func TestCloseEndsCleanUps(t *testing.T) {
	servers := deploy(t, 3)
	r := locker(t, clientsOf(servers), Config{NodeTimeout: 100 * time.Millisecond})
	must(t, servers[0].Kill())
	eventually(t, 5*time.Second, func() error {
		must(t, take(t, r, "x").Release(t.Context()))
		if r.nodes[0].Down() == nil {
			return errors.New("the node is not down yet")
		}
		return nil
	})
	must(t, r.Close())
	c := &cleanup{node: r.nodes[0], until: time.Now().Add(undoFor)}
	var replies atomic.Int32
	c.op.Script, c.op.Args = releaseScript, releaseScript.Command([]string{r.key("x")}, newToken())
	c.op.To = node.ReceiverFunc(func(op *node.Op, value any, err error) {
		replies.Add(1)
		c.Reply(op, value, err)
	})
	c.node.Send(&c.op)
	time.Sleep(3 * undoAgain)
	if n := replies.Load(); n > 2 { // of Send, and of Later
		t.Errorf("%d answers after Close", n)
	}
}
