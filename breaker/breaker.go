package breaker

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/redfence/redfence/observe"
)

// A Breaker says which route serves now. It is safe for concurrent use.
type Breaker struct {
	cfg   Config
	route atomic.Value // observe.Route; written under mu

	// mu makes "is it closed?" and "let me in" one step, so that no user's
	// request can slip into the half-open state, and orders the events.
	mu      sync.Mutex
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	state   gobreaker.State // as last told by circuit
	forced  observe.Route   // empty: automatic
	since   time.Time       // of the route
	reason  string          // of the route
	cause   error           // of the last failure
	changes int
	pending []observe.Event // to be told by the loop

	wake    chan struct{} // capacity 1: the state changed or an event is pending
	closing chan struct{}
	closed  sync.Once
	done    sync.WaitGroup
}

// New returns a closed breaker: the route is Primary until attempts say
// otherwise. Close stops its goroutine.
func New(cfg Config) (*Breaker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &Breaker{
		cfg:     cfg.withDefaults(),
		since:   time.Now(),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	b.route.Store(observe.Primary)
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   uint32(b.cfg.Successes),
		Timeout:       b.cfg.OpenFor,
		ReadyToTrip:   func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= uint32(b.cfg.Failures) },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
		OnStateChange: func(_ string, _, to gobreaker.State) { b.stateChanged(to) },
	})
	b.done.Go(b.loop)
	return b, nil
}

// Close stops the canary and waits for the goroutine; a canary in flight is
// cancelled. The route stays what it is.
func (b *Breaker) Close() {
	b.closed.Do(func() { close(b.closing) })
	b.done.Wait()
}

// Route returns the route that serves now.
func (b *Breaker) Route() observe.Route { return b.route.Load().(observe.Route) }

var (
	errNeutral  = errors.New("says nothing about the quorum")
	errNoQuorum = errors.New("no quorum")
)

// Attempt asks for one attempt at the quorum. When ok is false, take the
// fallback route. Else call done once, when the attempt has ended:
//
//   - done(true, cause): too few nodes answered.
//   - done(false, nil): the quorum answered; taken is an answer.
//   - done(false, cause): it ended for a reason that says nothing about the
//     quorum, such as the caller's cancellation or a full local pool.
//
// An attempt that ends after the breaker has changed its state counts nothing.
func (b *Breaker) Attempt() (done func(noQuorum bool, cause error), ok bool) {
	if b.Route() != observe.Primary {
		return nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.Route() != observe.Primary {
		return nil, false
	}
	if b.state != gobreaker.StateClosed { // forced to Primary
		return func(bool, error) {}, true
	}
	report, err := b.circuit.Allow()
	if err != nil { // a closed circuit lets everybody in
		return nil, false
	}
	return func(noQuorum bool, cause error) { b.report(report, verdict(noQuorum, cause)) }, true
}

// verdict is the error that gobreaker counts: nil success, errNeutral nothing,
// any other a failure.
func verdict(noQuorum bool, cause error) error {
	switch {
	case noQuorum && cause == nil:
		return errNoQuorum
	case noQuorum:
		return cause
	case cause == nil:
		return nil
	}
	return errNeutral
}

func (b *Breaker) report(report func(error), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && err != errNeutral {
		b.cause = err
	}
	report(err)
}

// Force overrides the breaker for operators: it stays on the given route until
// the override is taken back with an empty one. The canary goes on underneath
// while the breaker is not closed. Any other route is an error.
func (b *Breaker) Force(route observe.Route) error {
	if route != "" && route != observe.Primary && route != observe.Fallback {
		return fmt.Errorf("breaker: unknown route %q; use %q, %q or an empty one", route, observe.Primary, observe.Fallback)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forced = route
	reason := "forced by the operator"
	if route == "" {
		reason = "the operator's override was taken back: circuit " + b.state.String()
	}
	b.settle(reason)
	return nil
}

// stateChanged is gobreaker's callback. It runs under mu and under gobreaker's
// own mutex, so it only notes what has happened.
func (b *Breaker) stateChanged(to gobreaker.State) {
	from := b.state
	b.state = to
	reason := "no quorum"
	switch {
	case to == gobreaker.StateClosed:
		reason = "canaries reached the quorum again"
	case to == gobreaker.StateHalfOpen:
		reason = "time to ask the quorum again"
	case b.cause != nil:
		reason = b.cause.Error()
	}
	b.pending = append(b.pending, observe.BreakerChanged{From: from.String(), To: to.String(), Reason: reason})
	b.settle(reason)
	b.poke()
}

// settle derives the route from the state and the override. Needs mu.
func (b *Breaker) settle(reason string) {
	to := observe.Fallback
	if b.state == gobreaker.StateClosed {
		to = observe.Primary
	}
	if b.forced != "" {
		to = b.forced
	}
	from := b.Route()
	if from == to {
		return
	}
	now := time.Now()
	b.pending = append(b.pending, observe.RouteChanged{From: from, To: to, Reason: reason, For: now.Sub(b.since)})
	b.route.Store(to)
	b.since, b.reason = now, reason
	b.changes++
	b.poke()
}

func (b *Breaker) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// A Snapshot is the breaker at one moment, for people and metrics.
type Snapshot struct {
	Route observe.Route
	// Forced is the operator's override; empty: automatic.
	Forced observe.Route
	// State of the circuit: closed, half-open or open.
	State string
	// Since when the route is in use, and why; no reason before the first
	// change.
	Since  time.Time
	Reason string
	// Failures and Successes in a row in this state of the circuit.
	Failures, Successes int
	// Changes of the route since New.
	Changes int
}

// Snapshot returns the state of the breaker now.
func (b *Breaker) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := b.circuit.Counts()
	return Snapshot{
		Route: b.Route(), Forced: b.forced, State: b.state.String(),
		Since: b.since, Reason: b.reason, Changes: b.changes,
		Failures: int(counts.ConsecutiveFailures), Successes: int(counts.ConsecutiveSuccesses),
	}
}
