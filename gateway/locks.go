package gateway

import (
	"errors"
	"time"

	"github.com/redfence/redfence/internal/problems"
)

// Locks configures the lock API. Its zero value serves none.
type Locks struct {
	// Enabled serves the API under /-/locks/.
	Enabled bool `yaml:"enabled"`
	// Scope says whose locks a caller's are: names of two scopes never meet.
	// Required when enabled.
	Scope Scope `yaml:"scope"`
	// MaxTTL bounds what a caller may ask for. Defaults to 60 s.
	MaxTTL time.Duration `yaml:"max_ttl"`
	// MaxWait bounds a long poll. Defaults to 30 s.
	MaxWait time.Duration `yaml:"max_wait"`
	// MaxPerScope bounds the leases and waiters of one scope. Defaults to 100.
	MaxPerScope int `yaml:"max_per_scope"`
}

const (
	defaultMaxTTL   = time.Minute
	defaultMaxWait  = 30 * time.Second
	defaultMaxLocks = 100
	minTTL          = 100 * time.Millisecond
)

func (l Locks) withDefaults() Locks {
	if l.MaxTTL == 0 {
		l.MaxTTL = defaultMaxTTL
	}
	if l.MaxWait == 0 {
		l.MaxWait = defaultMaxWait
	}
	if l.MaxPerScope == 0 {
		l.MaxPerScope = defaultMaxLocks
	}
	return l
}

func (l Locks) check(where string, list *problems.List) {
	if !l.Enabled {
		return
	}
	l = l.withDefaults()
	bad := func(ok bool, field, text string) {
		if !ok {
			list.AddErr(&fieldProblem{where + "." + field, errors.New(text)})
		}
	}
	bad(l.MaxTTL >= minTTL, "max_ttl", "must be at least 100ms")
	bad(l.MaxWait > 0, "max_wait", "must be positive")
	bad(l.MaxPerScope > 0, "max_per_scope", "must be positive")
	if _, err := l.Scope.identify(); err != nil {
		list.AddErr(&fieldProblem{where + ".scope", err})
	}
}
