package redfenceprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

// caches are look-ups and puts in the response cache.
type caches struct {
	reads, puts *prometheus.CounterVec
	unverified  prometheus.Counter
	recovered   prometheus.Counter
}

func newCaches(b *builder) caches {
	c := caches{
		reads: b.counters("redfence_cache_reads_total",
			"Look-ups in the response cache: hit, or the reason of the miss.", "result"),
		puts: b.counters("redfence_cache_puts_total",
			"Puts into the response cache, one per node, by result.", "result"),
		unverified: b.counter("redfence_cache_unverified_records_total",
			"Cached records that were not made by this deployment for their key. They count as misses."),
		// The name is older than this package: dashboards know it.
		recovered: b.counter("idempotency_db_fallback_recovered_total",
			"Completed responses that the cache had missed and the ledger had."),
	}
	startAtZero(c.reads, "hit", "absent")
	return c
}

func (c caches) observe(e observe.Event) {
	switch e := e.(type) {
	case observe.CacheRead:
		result := e.Reason
		if e.Hit {
			result = "hit"
		}
		c.reads.WithLabelValues(result).Inc()
	case observe.CachePut:
		c.puts.WithLabelValues(e.Result).Inc()
	case observe.CacheUnverified:
		c.unverified.Inc()
	case observe.FallbackRecovered:
		c.recovered.Inc()
	}
}
