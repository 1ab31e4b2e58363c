package lock

import (
	"strings"
	"time"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// Config says how a Redlock works. Its zero value is the stand-alone lock with
// restart guard and fences.
type Config struct {
	// TTL is how long a lock outlives a holder that dies. A living holder
	// renews it. Defaults to 10 s, or to MaxTTL when that is less.
	TTL time.Duration
	// NodeTimeout is the deadline of one round trip to one node. Defaults to
	// 400 ms.
	NodeTimeout time.Duration
	// MaxTTL is the largest TTL that any locker of the deployment may ask
	// for, and how long a node that lost its memory does not vote. It is one
	// constant per deployment: the nodes keep it, and a locker that brings
	// another is refused. Unguarded lockers have none. Defaults to 60 s.
	MaxTTL time.Duration
	// MaxHold ends a lease that is held for longer, as if lost. Defaults to
	// no limit.
	MaxHold time.Duration
	// Prefix begins the names of the locks in Redis. Defaults to "rf1:s:",
	// or "rf1:" when Unguarded.
	Prefix string
	// Owner names this process to people who look at a lock. It may not
	// contain spaces. Defaults to host name and process id.
	Owner string
	// Unguarded leaves out the restart guard and the fences: for locks that
	// something else arbitrates, as the ledger does for the engine. It asks a
	// majority of the nodes first, so that for the first tenth of the TTL a
	// single node that forgets the lock may let a rival in. Every locker of a prefix must
	// agree.
	Unguarded bool
	// Direct counts the votes of an unguarded locker without redsync, as those
	// of a guarded one always are. The verdicts are the same;
	// docs/adr/redsync-behind-a-call.md says what it saves.
	Direct bool
	// TrustClients accepts clients whose options cannot be read.
	TrustClients bool
	// Observer receives events. Defaults to none.
	Observer observe.Observer
}

const (
	defaultTTL    = 10 * time.Second
	defaultMaxTTL = time.Minute
	minTTL        = 10 * time.Millisecond

	guardedPrefix   = "rf1:s:"
	unguardedPrefix = "rf1:"

	maxName = 512
)

func (c Config) withDefaults() Config {
	if c.MaxTTL == 0 {
		c.MaxTTL = defaultMaxTTL
	}
	if c.TTL == 0 {
		c.TTL = min(defaultTTL, c.MaxTTL)
	}
	if c.NodeTimeout == 0 {
		c.NodeTimeout = node.DefaultTimeout
	}
	if c.Prefix == "" {
		c.Prefix = guardedPrefix
		if c.Unguarded {
			c.Prefix = unguardedPrefix
		}
	}
	if c.Owner == "" {
		c.Owner = processName()
	}
	c.Observer = observe.Or(c.Observer)
	return c
}

// Validate reports every problem that can be seen without clients, all at
// once.
func (c Config) Validate() error {
	var list problems.List
	c.withDefaults().check(&list)
	return list.Err()
}

func (c Config) check(list *problems.List) {
	checkTTL(list, "TTL", c.TTL)
	checkTTL(list, "MaxTTL", c.MaxTTL)
	if !c.Unguarded && c.TTL > c.MaxTTL {
		list.Add("TTL: %v is above MaxTTL %v; lower it, or raise MaxTTL for the whole deployment", c.TTL, c.MaxTTL)
	}
	if c.MaxHold < 0 {
		list.Add("MaxHold: %v is negative", c.MaxHold)
	}
	if c.NodeTimeout < time.Millisecond {
		list.Add("NodeTimeout: %v is below 1 ms", c.NodeTimeout)
	}
	if strings.ContainsAny(c.Owner, " \n") {
		list.Add("Owner: %q contains a space", capped(c.Owner))
	}
}

func checkTTL(list *problems.List, name string, ttl time.Duration) {
	if ttl < minTTL {
		list.Add("%s: %v is below %v", name, ttl, minTTL)
	}
}
