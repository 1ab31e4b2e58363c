package breaker

import (
	"context"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/redfence/redfence/observe"
)

// afterOpen is added to OpenFor: gobreaker half-opens strictly after it.
const afterOpen = time.Millisecond

// loop tells events and runs the canary while the circuit is not closed. It is
// the only goroutine that calls the observer.
func (b *Breaker) loop() {
	defer b.tell()
	next := time.NewTimer(0)
	next.Stop()
	defer next.Stop()
	c := &canary{b: b, ended: make(chan error, 1)}
	seen := gobreaker.StateClosed
	for {
		select {
		case <-b.closing:
			c.cancelAndWait()
			return
		case <-b.wake:
			b.tell()
			if now := b.told(); now != seen {
				seen = now
				b.arm(next, now)
			}
		case <-next.C:
			c.start()
			b.arm(next, b.told())
		case err := <-c.ended:
			c.returned(err)
		case <-c.deadline():
			c.expired()
		}
	}
}

// told is the state that the circuit has told last.
func (b *Breaker) told() gobreaker.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// arm sets the time of the next canary; a closed circuit needs none.
func (b *Breaker) arm(next *time.Timer, state gobreaker.State) {
	switch state {
	case gobreaker.StateOpen:
		next.Reset(b.cfg.OpenFor + afterOpen)
	case gobreaker.StateHalfOpen:
		next.Reset(b.cfg.Every)
	default:
		next.Stop()
	}
}

// tell hands the pending events to the observer, outside of every lock.
func (b *Breaker) tell() {
	b.mu.Lock()
	events := b.pending
	b.pending = nil
	b.mu.Unlock()
	for _, e := range events {
		b.cfg.Observer.Observe(e)
	}
}

// admit asks the circuit to let a canary in.
func (b *Breaker) admit() (report func(error), ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.circuit.State() != gobreaker.StateHalfOpen {
		return nil, false
	}
	report, err := b.circuit.Allow()
	return report, err == nil
}

// A canary is at most one probe in flight. Only the loop uses it.
type canary struct {
	b       *Breaker
	ended   chan error // capacity 1: the probe never waits for the loop
	running bool
	report  func(error) // nil once its verdict is in
	ctx     context.Context
	cancel  context.CancelFunc
	started time.Time
}

// start sends the next probe, unless the last one still hangs: a probe that
// ignores its context must not pile up goroutines.
func (c *canary) start() {
	if c.running {
		return
	}
	report, ok := c.b.admit()
	if !ok {
		return
	}
	c.report, c.running, c.started = report, true, time.Now()
	c.ctx, c.cancel = context.WithTimeout(context.Background(), c.b.cfg.ProbeTimeout)
	ctx, probe, ended := c.ctx, c.b.cfg.Probe, c.ended
	go func() { ended <- guarded(ctx, probe) }()
}

// guarded turns a panic of the probe into a failure: the breaker stays open
// rather than taking the process down from a goroutine nobody can recover.
func guarded(ctx context.Context, probe func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("canary panicked: %v", p)
		}
	}()
	return probe(ctx)
}

// deadline is the probe's own; nil, which blocks for ever, once its verdict is
// in.
func (c *canary) deadline() <-chan struct{} {
	if c.report == nil {
		return nil
	}
	return c.ctx.Done()
}

// expired counts a probe that hangs as failed, at its deadline.
func (c *canary) expired() {
	c.settle(fmt.Errorf("canary: no answer within %v: %w", c.b.cfg.ProbeTimeout, context.DeadlineExceeded))
}

// returned takes the result of the probe; one that comes after its deadline
// counts nothing.
func (c *canary) returned(err error) {
	c.running = false
	if c.report != nil {
		c.settle(err)
	}
	c.cancel()
}

func (c *canary) settle(err error) {
	c.b.cfg.Observer.Observe(observe.CanaryProbed{OK: err == nil, Took: time.Since(c.started), Err: err})
	report := c.report
	c.report = nil
	c.b.report(report, verdict(err != nil, err))
}

// cancelAndWait ends the probe in flight. One that ignores its context is left
// behind: Close must not hang with it.
func (c *canary) cancelAndWait() {
	if !c.running {
		return
	}
	c.cancel()
	grace := time.NewTimer(c.b.cfg.ProbeTimeout)
	defer grace.Stop()
	select {
	case <-c.ended:
	case <-grace.C:
	}
}
