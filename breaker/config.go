package breaker

import (
	"context"
	"time"

	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// Config says when the breaker opens and closes. Probe is required.
type Config struct {
	// Probe asks the quorum with a lock of its own, the canary; nil means that
	// a quorum answered. It must honour its context.
	Probe func(context.Context) error
	// Failures is how many attempts in a row must end without a quorum to
	// open the breaker. Defaults to 3.
	Failures int
	// OpenFor is how long the breaker stays open before the first canary.
	// Defaults to 500 ms.
	OpenFor time.Duration
	// Every is the time between two canaries after that. Defaults to 250 ms.
	Every time.Duration
	// Successes is how many canaries in a row close the breaker. Defaults to 3.
	Successes int
	// ProbeTimeout is the deadline of one canary. Defaults to Every.
	ProbeTimeout time.Duration
	// Observer receives observe.BreakerChanged, observe.RouteChanged and
	// observe.CanaryProbed. Defaults to none.
	Observer observe.Observer
}

const (
	defaultFailures  = 3
	defaultOpenFor   = 500 * time.Millisecond
	defaultEvery     = 250 * time.Millisecond
	defaultSuccesses = 3
)

func (c Config) withDefaults() Config {
	setDefault(&c.Failures, defaultFailures)
	setDefault(&c.OpenFor, defaultOpenFor)
	setDefault(&c.Every, defaultEvery)
	setDefault(&c.Successes, defaultSuccesses)
	setDefault(&c.ProbeTimeout, c.Every)
	c.Observer = observe.Or(c.Observer)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports every problem at once, defaults applied.
func (c Config) Validate() error {
	c = c.withDefaults()
	var list problems.List
	if c.Probe == nil {
		list.Add("Probe: none; give a function that asks the quorum")
	}
	positive := func(name string, ok bool, value any) {
		if !ok {
			list.Add("%s: %v; must be positive", name, value)
		}
	}
	positive("Failures", c.Failures > 0, c.Failures)
	positive("Successes", c.Successes > 0, c.Successes)
	positive("OpenFor", c.OpenFor > 0, c.OpenFor)
	positive("Every", c.Every > 0, c.Every)
	positive("ProbeTimeout", c.ProbeTimeout > 0, c.ProbeTimeout)
	return list.Err()
}
