// Package redfenceprom turns Redfence's events into Prometheus metrics. A
// Collector is an observe.Observer and a prometheus.Collector:
//
//	metrics := redfenceprom.New()
//	prometheus.MustRegister(metrics)
//	engine, err := redfence.New(ctx, redfence.Config{Observer: metrics, …})
//
// Give the same collector to fallback.Config and lock.Config, and use
// observe.Tee to log as well. docs/METRICS.md lists the metrics.
//
// # Guarantees
//
// Observing an event takes well under a microsecond and never blocks, so no
// Fanout is needed. Labels take few values: routes, outcomes, reasons, states
// and the addresses of the Redis nodes. No key and no scope is ever a label.
//
// # Caveats
//
// Gauges such as redfence_claims_in_flight are kept by pairs of events, so a
// collector has to see all of them: give it to the engine from the start, and
// not behind a Fanout that may drop. One collector describes one engine; for
// several in one process, register each with labels of its own
// (prometheus.WrapRegistererWith).
package redfenceprom
