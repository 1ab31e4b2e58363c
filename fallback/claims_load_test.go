package fallback_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redfence/redfence/fallback"
)

// claims are a load of claims and completions, and what it was told.
type claims struct {
	stop func() // returns when nothing is under way

	mu        sync.Mutex
	claimed   map[fallback.Digest]fallback.Ref // and not known to be completed
	completed map[fallback.Digest]string
	last      fallback.ClaimRequest // of those that were completed
	served    int                   // since the last turn
	refused   int                   // all in all
	turns     int
	lowest    int64 // fence of a claim that began after the last turn
	highest   int64
}

func startClaims(t *testing.T, l fallback.Ledger) *claims {
	ctx, cancel := context.WithCancel(t.Context())
	c := &claims{claimed: make(map[fallback.Digest]fallback.Ref), completed: make(map[fallback.Digest]string)}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := c.one(t, l)
				if err == nil {
					continue
				}
				c.wasRefused()
				if !errors.Is(err, fallback.ErrUnavailable) && !errors.Is(err, fallback.ErrUnconfirmed) {
					t.Errorf("an outage is told as %v", err)
				}
			}
		})
	}
	c.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(c.stop)
	return c
}

// one claims a key and completes it.
func (c *claims) one(t *testing.T, l fallback.Ledger) error {
	turn := c.turnNow()
	r := newRequest(holdPolicy())
	v, err := l.Claim(t.Context(), r)
	if err != nil {
		return err
	}
	if v.Granted == nil {
		t.Errorf("a fresh key is not granted: %+v", v.Row)
		return nil
	}
	ref := refOf(r, v.Granted.Fence)
	c.granted(turn, ref)
	_, err = l.Complete(t.Context(), fallback.Completion{Ref: ref, Response: []byte(r.Key.ID)})
	if err == nil {
		c.done(turn, r)
	}
	return err
}

func (c *claims) granted(turn int, ref fallback.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimed[ref.Digest] = ref
	c.highest = max(c.highest, ref.Fence)
	if turn == c.turns && (c.lowest == 0 || ref.Fence < c.lowest) {
		c.lowest = ref.Fence
	}
}

func (c *claims) done(turn int, r fallback.ClaimRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.claimed, r.Digest)
	c.completed[r.Digest] = r.Key.ID
	if turn == c.turns {
		c.last = r
		c.served++
	}
}

func (c *claims) wasRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
}

// refusals returns how many keys were refused, or not known to be completed.
func (c *claims) refusals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

func (c *claims) turnNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns
}

// turn begins to count afresh, and returns the largest fence so far.
func (c *claims) turn() (highest int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns++
	c.served, c.lowest = 0, 0
	return c.highest
}

// count returns how many keys were completed since the last turn.
func (c *claims) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served
}

// check looks for everything acknowledged, and completes the claims of which
// no completion was.
func (c *claims) check(t *testing.T, l fallback.Ledger) {
	t.Helper()
	for d, response := range c.completed {
		if row := mustRead(t, l, d); row.State != fallback.Completed || string(row.Response) != response {
			t.Fatalf("an acknowledged response is lost: %+v", row)
		}
	}
	for _, ref := range c.claimed {
		if _, err := l.Complete(t.Context(), fallback.Completion{Ref: ref, Response: []byte("late")}); err != nil {
			t.Errorf("a claim in flight: %v", err)
		}
	}
}
