package cache

import (
	"time"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// Config says how responses are cached. Its zero value is ready.
type Config struct {
	// TTL bounds how long Redis keeps a record, whatever its retention. It
	// only frees memory. Defaults to 24 h.
	TTL time.Duration
	// NearBytes bounds the near cache: records that this process has seen last
	// and answers by itself, each for at most 30 s. 0: none.
	NearBytes int64
	// MaxBytes stops puts at a node whose used_memory has reached it. Puts
	// stop at 60 % of a node's maxmemory in any case, so that locks always
	// fit. Read every 5 s. Defaults to no bound of its own.
	MaxBytes int64
	// Keys authenticates records. Defaults to none.
	Keys Keys
	// NodeTimeout is the deadline of one command at one node. Used by New
	// only. Defaults to 400 ms.
	NodeTimeout time.Duration
	// TrustClients accepts clients whose options cannot be read. Used by New
	// only.
	TrustClients bool
	// Observer receives observe.CachePut for puts that did not store, and
	// observe.CacheUnverified. Defaults to none.
	Observer observe.Observer
}

const defaultTTL = 24 * time.Hour

func (c Config) withDefaults() Config {
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	if c.NodeTimeout == 0 {
		c.NodeTimeout = node.DefaultTimeout
	}
	c.Observer = observe.Or(c.Observer)
	return c
}

func (c Config) check(list *problems.List) {
	if c.TTL < time.Millisecond {
		list.Add("TTL: %v; at least 1 ms", c.TTL)
	}
	if c.NearBytes < 0 {
		list.Add("NearBytes: %d is negative", c.NearBytes)
	}
	if c.MaxBytes < 0 {
		list.Add("MaxBytes: %d is negative", c.MaxBytes)
	}
}
