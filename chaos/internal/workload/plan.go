package workload

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// plan is what one key will be sent, drawn before it begins.
type plan struct {
	key       string
	asked     string // history.Transfers and so on
	sink      string
	work      time.Duration
	vanish    time.Duration // after which the first client hangs up; 0: never
	instances []int         // of the first request and its duplicates
}

// How likely a fresh key is something special.
const (
	chanceOfTransfer = 0.1
	chanceOfPanic    = 0.005
	chanceOfVanish   = 0.03
	chanceOfLong     = 0.01 // longer than the lease
	longestVanish    = 40 * time.Millisecond
)

// draw plans the next key: most handlers are quick, some are slow enough for
// duplicates to meet them at work, a few outlast their lease.
func (l *Load) draw() plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys++
	p := plan{key: fmt.Sprintf("%s-%06d", l.options.Prefix, l.keys), work: l.drawWork()}
	switch n := l.random.Float64(); {
	case n < 0.15:
		p.sink = history.Fenced
	case n < 0.3:
		p.sink = history.Deduplicating
	}
	kind := l.random.Float64()
	switch {
	case kind < chanceOfTransfer:
		if l.options.Transfers {
			p.asked = history.Transfers
		}
	case kind < chanceOfTransfer+chanceOfPanic:
		p.asked = history.Panics
	case kind < chanceOfTransfer+chanceOfPanic+chanceOfVanish:
		p.asked, p.vanish = history.Vanishes, 1+time.Duration(l.random.Int64N(int64(longestVanish)))
	}
	for range 1 + l.random.IntN(3) {
		p.instances = append(p.instances, l.random.IntN(len(l.options.Instances)))
	}
	return p
}

// drawWork draws how long a handler works. The caller holds mu.
func (l *Load) drawWork() time.Duration {
	long := l.random.Float64() < chanceOfLong
	switch n := l.random.IntN(10); {
	case long:
		return l.options.Lease + l.options.Lease/2
	case n < 6:
		return 0
	case n < 9:
		return time.Duration(l.random.IntN(10)) * time.Millisecond
	}
	return time.Duration(50+l.random.IntN(250)) * time.Millisecond
}

// begin sends the first request of a key and its duplicates at once.
func (l *Load) begin(ctx context.Context, p plan) {
	var group sync.WaitGroup
	for i, instance := range p.instances {
		kind := history.Duplicate
		if i == 0 {
			kind = history.Fresh
		}
		group.Go(func() {
			if i == 0 && p.vanish > 0 {
				gone, cancel := context.WithTimeout(ctx, p.vanish)
				l.send(gone, kind, p, instance)
				cancel()
			}
			l.until(ctx, kind, p, instance)
		})
	}
	group.Wait()
}

// fewTries bound the requests for a key of which nobody will know how it ended.
const fewTries = 3

func (l *Load) hopeless(op history.Op, try int) bool {
	unknown := op.Kind == history.Final && strings.Contains(op.Body, "outcome-unknown")
	return try >= fewTries && (unknown || op.Asked == history.Panics)
}

// until repeats a request, each time at the next instance, until it gets a
// response of the handler or the client's patience ends.
func (l *Load) until(ctx context.Context, kind string, p plan, instance int) {
	end := l.options.Clock() + patience
	for try := 1; ; try++ {
		op := l.send(ctx, kind, p, instance)
		if op.OK() || ctx.Err() != nil || l.options.Clock() > end || l.hopeless(op, try) {
			return
		}
		pause(ctx, l.backoff())
		instance = (instance + 1) % len(l.options.Instances)
	}
}
