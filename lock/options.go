package lock

import (
	"time"

	"github.com/redfence/redfence/internal/problems"
)

// Options are what the options of one acquire add up to.
type Options struct {
	// TTL is how long the lock outlives a holder that dies. Defaults to the
	// locker's.
	TTL time.Duration
	// MaxHold ends the lease that long after it was acquired, as if lost. 0:
	// no limit. Defaults to the locker's.
	MaxHold time.Duration
	// Warn, if set, is called on a goroutine of its own when no renewal has
	// been confirmed and only WarnBefore is left of the validity.
	Warn       func(Lease)
	WarnBefore time.Duration
	// Fair: a waiter defers to those that came before it, as far as they are
	// fair as well.
	Fair bool
}

// An Option changes one acquire.
type Option interface{ apply(*Options) }

type optionFunc func(*Options)

func (f optionFunc) apply(o *Options) { f(o) }

// WithTTL sets how long the lock outlives a holder that dies.
func WithTTL(ttl time.Duration) Option { return optionFunc(func(o *Options) { o.TTL = ttl }) }

// WithMaxHold ends the lease after d, renewed or not.
func WithMaxHold(d time.Duration) Option { return optionFunc(func(o *Options) { o.MaxHold = d }) }

// WithWarn has tell called, on a goroutine of its own, when only before is
// left of the validity because no renewal was confirmed: time to stop before
// the lease is lost. before must be less than half of the TTL. It is called
// again if the lease recovers and is in danger once more. Lockers whose leases
// are renewed elsewhere may ignore it.
func WithWarn(before time.Duration, tell func(Lease)) Option {
	return optionFunc(func(o *Options) { o.Warn, o.WarnBefore = tell, before })
}

// WithFair makes a waiter defer to those that came before it, in other
// processes too as far as these also ask for it. Across processes that is a
// best effort: a waiter that crashed is remembered for a few seconds, and one
// whose wait began while nodes were down may be overlooked. It costs each try
// a round trip. Waiters of one process are always served in order.
func WithFair() Option { return optionFunc(func(o *Options) { o.Fair = true }) }

// Resolve returns the defaults changed by the options, in order. It is for
// implementations of Locker.
func Resolve(defaults Options, opts ...Option) Options {
	for _, o := range opts {
		o.apply(&defaults)
	}
	return defaults
}

// checkAcquire reports what is wrong with a name and its options.
func checkAcquire(list *problems.List, name string, o Options) {
	if name == "" || len(name) > maxName {
		list.Add("name of %d bytes; 1 to %d", len(name), maxName)
	}
	checkTTL(list, "TTL", o.TTL)
	if o.MaxHold < 0 {
		list.Add("MaxHold: %v is negative", o.MaxHold)
	}
	if o.Warn != nil && (o.WarnBefore <= 0 || o.WarnBefore >= o.TTL/2) {
		list.Add("WithWarn: %v before the end; more than 0 and less than half of the TTL %v", o.WarnBefore, o.TTL)
	}
}
