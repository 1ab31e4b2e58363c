package redfenceprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

// locks are acquired, held and ended.
type locks struct {
	held         prometheus.Gauge
	wait, length *prometheus.HistogramVec
	broken       prometheus.Counter
}

func newLocks(b *builder) locks {
	return locks{
		held: b.gauge("redfence_locks_held", "Locks that this process holds now; the processing locks of Do are not among them."),
		wait: b.histograms("redfence_lock_acquire_duration_seconds",
			"Time from the call to the lock, or to giving up, by result.", "result"),
		length: b.histograms("redfence_lock_hold_duration_seconds",
			"Time from the acquisition of a lock to its end: released or lost.", "end"),
		broken: b.counter("redfence_locks_broken_total", "Locks that were taken away from their holder by force."),
	}
}

func (l locks) observe(e observe.Event) {
	switch e := e.(type) {
	case observe.LockAcquired:
		l.held.Inc()
		l.wait.WithLabelValues("acquired").Observe(e.Took.Seconds())
	case observe.LockRefused:
		l.wait.WithLabelValues(e.Reason).Observe(e.Took.Seconds())
	case observe.LockReleased:
		l.ended("released", e.Held)
	case observe.LockLost:
		l.ended("lost", e.Held)
	case observe.LockBroken:
		l.broken.Inc()
	}
}

func (l locks) ended(end string, held time.Duration) {
	l.held.Dec()
	l.length.WithLabelValues(end).Observe(held.Seconds())
}
