package fallback_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// A tally counts what one client says: messages are round trips, since what a
// pipeline sends goes out at once; each Sync in them ends a transaction.
type tally struct {
	mu           sync.Mutex
	trips, syncs int
}

func (c *tally) hear(said []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips++
	c.syncs += bytes.Count(said, []byte{'S', 0, 0, 0, 4})
	return -1
}

func (c *tally) take() (trips, syncs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	trips, syncs, c.trips, c.syncs = c.trips, c.syncs, 0, 0
	return trips, syncs
}

// TestReadBack: a lost claim is answered by the row in its way. The read-back
// goes along when the batch before lost a claim, as a transaction of its own;
// otherwise it follows, and only a lost claim needs it.
func TestReadBack(t *testing.T) {
	t.Parallel()
	link, via := newLink(t, testenv.Postgres(t).URL())
	l := openLedger(t, newPool(t, via, noPing), brisk)
	taken := newRequest(holdPolicy())
	fence := mustClaim(t, l, taken).Fence
	lose := func() { mustLose(t, l, taken, fence) }
	win := func() { mustClaim(t, l, newRequest(holdPolicy())) }
	lose()
	lose()
	win()
	win() // all statements are prepared

	var heard tally
	link.holdingFrom(heard.hear)
	for i, tt := range []struct {
		what         string
		claim        func()
		trips, syncs int
	}{
		{"granted", win, 1, 1},
		{"lost after none was", lose, 2, 2},
		{"lost after one was", lose, 1, 2},
		{"granted after one was lost", win, 1, 2},
		{"granted", win, 1, 1},
		{"lost after none was", lose, 2, 2},
	} {
		heard.take()
		tt.claim()
		if trips, syncs := heard.take(); trips != tt.trips || syncs != tt.syncs {
			t.Errorf("claim %d, %s: %d round trips and %d transactions, want %d and %d", i, tt.what, trips, syncs, tt.trips, tt.syncs)
		}
	}
}

// TestReadBackLost: the connection breaks between a claim's commit and the
// read-back that follows. It is no claim in doubt: the row is read on another.
func TestReadBackLost(t *testing.T) {
	t.Parallel()
	link, via := newLink(t, testenv.Postgres(t).URL())
	l := openLedger(t, newPool(t, via, noPing), brisk)
	taken := newRequest(holdPolicy())
	fence := mustClaim(t, l, taken).Fence
	mustLose(t, l, taken, fence)
	mustClaim(t, l, newRequest(holdPolicy()))
	mustClaim(t, l, newRequest(holdPolicy()))

	trips := 0
	link.holdingFrom(func([]byte) int {
		trips++
		return trips - 2 // the second: the read-back
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		mustLose(t, l, taken, fence)
	}()
	eventually(t, "the read-back is on its way", func() bool { return link.keeping() > 0 })
	link.cutClients()
	<-done
}

// mustLose claims a key again, and meets the row under its fence.
func mustLose(t *testing.T, l fallback.Ledger, r fallback.ClaimRequest, fence int64) {
	t.Helper()
	r.Token = fallback.NewToken()
	v, err := l.Claim(t.Context(), r)
	if err != nil || v.Granted != nil || v.Row == nil || v.Row.Fence != fence || v.Row.State != fallback.Processing {
		t.Errorf("a key that is taken: %+v, %v", v, err)
	}
}
