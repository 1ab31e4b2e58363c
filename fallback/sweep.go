package fallback

import "errors"

// A Sweep says how rows that nobody needs any more are removed.
type Sweep struct {
	// Off leaves them to somebody else: another instance, or a job that calls
	// SweepOnce. Defaults to false.
	Off bool
}

func (s Sweep) check() error { return errors.Join() }

func (p *Postgres) startSweeper() {}

// Listen says where wake-ups come from.
type Listen struct{}
