package lock

import (
	"strings"
	"testing"
	"time"
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
