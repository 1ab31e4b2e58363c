package redfenceprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

// A Collector counts events and offers the counts to Prometheus. It is safe
// for concurrent use.
type Collector struct {
	all      []prometheus.Collector
	requests requests
	claims   claims
	routes   routes
	cache    caches
	nodes    nodes
	locks    locks
	ledger   ledger
	dropped  prometheus.Counter
}

var (
	_ observe.Observer     = (*Collector)(nil)
	_ prometheus.Collector = (*Collector)(nil)
)

// New returns a collector. Nothing has to be closed.
func New() *Collector {
	var b builder
	c := &Collector{
		requests: newRequests(&b),
		claims:   newClaims(&b),
		routes:   newRoutes(&b),
		cache:    newCaches(&b),
		nodes:    newNodes(&b),
		locks:    newLocks(&b),
		ledger:   newLedger(&b),
		dropped:  b.counter("redfence_events_dropped_total", "Events that a fan-out had no room for."),
	}
	c.all = b.all
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range c.all {
		m.Describe(out)
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.all {
		m.Collect(out)
	}
}

// Observe implements observe.Observer.
func (c *Collector) Observe(e observe.Event) {
	switch e := e.(type) {
	case observe.DoFinished:
		c.requests.finished(e)
	case observe.CacheRead, observe.CachePut, observe.CacheUnverified, observe.FallbackRecovered:
		c.cache.observe(e)
	case observe.RouteChanged, observe.BreakerChanged, observe.CanaryProbed:
		c.routes.observe(e)
	case observe.EngineStarted, observe.NodeSetDiffers, observe.NodeDown, observe.NodeUp, observe.NodeRejoined, observe.NodeWarning:
		c.nodes.observe(e)
	case observe.LockAcquired, observe.LockRefused, observe.LockReleased, observe.LockLost, observe.LockBroken:
		c.locks.observe(e)
	case observe.LedgerSwept, observe.LedgerSplit, observe.LedgerAdopted:
		c.ledger.observe(e)
	case observe.EventsDropped:
		c.dropped.Add(float64(e.Count))
	default:
		c.claims.observe(e)
	}
}
