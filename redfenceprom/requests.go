package redfenceprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

// requests are calls of Do and how they ended.
type requests struct {
	total, duplicates *prometheus.CounterVec
	duration          *prometheus.HistogramVec
}

func newRequests(b *builder) requests {
	r := requests{
		total: b.counters("redfence_requests_total",
			"Calls of Do, by route, outcome, and reason of an error.", "route", "outcome", "reason"),
		duplicates: b.counters("redfence_duplicates_total",
			"Calls of Do that met an earlier one of the same key, by what they were answered.", "answer"),
		duration: b.histograms("redfence_request_duration_seconds",
			"Time of a call of Do, waiting and handler included.", "route", "outcome"),
	}
	startAtZero(r.duplicates, "replayed", "joined")
	startAtZero(r.duplicates, duplicateReasons...)
	return r
}

// duplicateReasons are those that only a request gets whose key was met
// before.
var duplicateReasons = []string{"in_progress", "mismatch", "unknown_outcome", "not_replayable", "expired", "in_doubt"}

func (r requests) finished(e observe.DoFinished) {
	r.total.WithLabelValues(string(e.Route), e.Outcome, e.Reason).Inc()
	r.duration.WithLabelValues(string(e.Route), e.Outcome).Observe(e.Took.Seconds())
	if answer, ok := duplicate(e); ok {
		r.duplicates.WithLabelValues(answer).Inc()
	}
}

// duplicate says what a duplicate was answered. A replayed error is a replay,
// whatever its reason; the call that made an outcome unknown is no duplicate.
func duplicate(e observe.DoFinished) (answer string, ok bool) {
	switch e.Outcome {
	case "replayed", "joined":
		return e.Outcome, true
	case "error":
		for _, reason := range duplicateReasons {
			if e.Reason == reason {
				return reason, true
			}
		}
	}
	return "", false
}
