package redfenceprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

var (
	routeNames    = []string{string(observe.Primary), string(observe.Fallback)}
	breakerStates = []string{"closed", "half-open", "open"}
)

// routes say which way requests take, and what the breaker thinks of the
// quorum. Both start as a breaker does: closed, on the primary route.
type routes struct {
	route    *prometheus.GaugeVec
	changes  *prometheus.CounterVec
	state    *prometheus.GaugeVec
	canaries *prometheus.CounterVec
}

func newRoutes(b *builder) routes {
	r := routes{
		route:    b.gauges("redfence_route", "1 for the route that this process takes now, 0 for the other.", "route"),
		changes:  b.counters("redfence_route_changes_total", "Changes of the route, by the new one.", "to"),
		state:    b.gauges("redfence_breaker_state", "1 for the state of the quorum breaker, 0 for the others.", "state"),
		canaries: b.counters("redfence_canaries_total", "Canaries of the quorum breaker, by result.", "result"),
	}
	oneOf(r.route, routeNames, string(observe.Primary))
	oneOf(r.state, breakerStates, "closed")
	startAtZero(r.changes, routeNames...)
	startAtZero(r.canaries, "ok", "failed")
	return r
}

func (r routes) observe(e observe.Event) {
	switch e := e.(type) {
	case observe.RouteChanged:
		oneOf(r.route, routeNames, string(e.To))
		r.changes.WithLabelValues(string(e.To)).Inc()
	case observe.BreakerChanged:
		oneOf(r.state, breakerStates, e.To)
	case observe.CanaryProbed:
		result := "failed"
		if e.OK {
			result = "ok"
		}
		r.canaries.WithLabelValues(result).Inc()
	}
}
