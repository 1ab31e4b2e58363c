package redfenceprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

// claims are what this process owns, and how it ended.
type claims struct {
	granted      *prometheus.CounterVec
	inFlight     prometheus.Gauge
	held         *prometheus.HistogramVec
	lost         prometheus.Counter
	rejections   prometheus.Counter
	unknown      prometheus.Counter
	notDurable   prometheus.Counter
	queue        prometheus.Gauge
	late         *prometheus.CounterVec
	recoveryAsks *prometheus.CounterVec
}

func newClaims(b *builder) claims {
	c := claims{
		granted: b.counters("redfence_claims_total",
			"Claims that started a handler, by route and by whether they took over a lapsed one.", "route", "start"),
		inFlight: b.gauge("redfence_claims_in_flight", "Claims that this process holds now."),
		held: b.histograms("redfence_claim_hold_duration_seconds",
			"Time from the grant of a claim to its end, by how it ended.", "result"),
		lost: b.counter("redfence_claims_lost_total",
			"Claims whose lease could not be renewed in time, or was refused."),
		rejections: b.counter("redfence_fence_rejections_total",
			"Outcomes that the ledger refused because of a later fence."),
		unknown: b.counter("redfence_unknown_outcomes_total", "Keys that entered the state unknown."),
		notDurable: b.counter("redfence_not_durable_responses_total",
			"Responses that were given before the ledger had confirmed them."),
		queue: b.gauge("redfence_completer_queue", "Claims that wait in the background for the ledger."),
		late: b.counters("redfence_late_completions_total",
			"Claims that the background completer has ended, by result.", "result"),
		recoveryAsks: b.counters("redfence_recoveries_total",
			"Questions to the recovery hook, by answer.", "answer"),
	}
	startAtZero(c.late, "completed", "released", "refused", "abandoned")
	return c
}

func (c claims) observe(e observe.Event) {
	switch e := e.(type) {
	case observe.ClaimGranted:
		c.granted.WithLabelValues(string(e.Route), start(e)).Inc()
		c.inFlight.Inc()
	case observe.ClaimEnded:
		c.inFlight.Dec()
		c.held.WithLabelValues(e.Result).Observe(e.Held.Seconds())
		if e.Result == "refused" {
			c.rejections.Inc()
		}
	case observe.ClaimLost:
		c.lost.Inc()
	case observe.OutcomeUnknown:
		c.unknown.Inc()
	case observe.NotDurable:
		c.notDurable.Inc()
	case observe.HandedOver:
		c.queue.Inc()
	case observe.LateCompletion:
		c.queue.Dec()
		c.late.WithLabelValues(e.Result).Inc()
	case observe.RecoveryAsked:
		c.recoveryAsks.WithLabelValues(answer(e)).Inc()
	}
}

func start(e observe.ClaimGranted) string {
	switch {
	case e.TakenOver:
		return "takeover"
	case e.Attempt > 1:
		return "again"
	}
	return "first"
}

func answer(e observe.RecoveryAsked) string {
	switch {
	case e.Err != nil:
		return "error"
	case e.Decided:
		return "decided"
	}
	return "undecided"
}
