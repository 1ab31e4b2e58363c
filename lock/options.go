package lock

import "time"

// Options are what the options of one acquire add up to.
type Options struct {
	// TTL is how long the lock outlives a holder that dies. Defaults to the
	// locker's.
	TTL time.Duration
	// MaxHold ends the lease that long after it was acquired, as if lost. 0:
	// no limit. Defaults to the locker's.
	MaxHold time.Duration
}

// An Option changes one acquire.
type Option interface{ apply(*Options) }

type optionFunc func(*Options)

func (f optionFunc) apply(o *Options) { f(o) }

// WithTTL sets how long the lock outlives a holder that dies.
func WithTTL(ttl time.Duration) Option { return optionFunc(func(o *Options) { o.TTL = ttl }) }

// WithMaxHold ends the lease after d, renewed or not.
func WithMaxHold(d time.Duration) Option { return optionFunc(func(o *Options) { o.MaxHold = d }) }

// Resolve returns the defaults changed by the options, in order. It is for
// implementations of Locker.
func Resolve(defaults Options, opts ...Option) Options {
	for _, o := range opts {
		o.apply(&defaults)
	}
	return defaults
}
