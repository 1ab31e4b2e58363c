package fallback

import (
	"sync/atomic"
	"time"
)

// clockMargin is the least that an estimate of the ledger's clock is off by.
const clockMargin = time.Second

// A clock estimates the ledger's clock from the last statement that returned
// it. Its zero value has no estimate.
type clock struct{ last atomic.Pointer[sample] }

// A sample is one reading of the ledger's clock. The server read it somewhere
// between the two moments of ours.
type sample struct {
	ledger         time.Time
	sent, received time.Duration // since boot
}

// observe takes a reading, unless a later one has been taken meanwhile.
func (c *clock) observe(ledger time.Time, sent time.Duration) {
	s := &sample{ledger: ledger, sent: sent, received: boot()}
	for {
		last := c.last.Load()
		if last != nil && last.sent > s.sent || c.last.CompareAndSwap(last, s) {
			return
		}
	}
}

// now returns the estimate and how far it may be off: the margin, the round
// trip of the reading, and 1 % of its age.
func (c *clock) now() (time.Time, time.Duration, bool) {
	s := c.last.Load()
	if s == nil {
		return time.Time{}, 0, false
	}
	at := boot()
	margin := clockMargin + (s.received - s.sent) + (at-s.sent)/100
	return s.ledger.Add(at - s.received), margin, true
}
