package redfenceprom

import "github.com/prometheus/client_golang/prometheus"

// buckets in seconds: from a replay out of memory to a handler that runs into
// its time limit.
var buckets = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// A builder makes metrics and remembers them.
type builder struct{ all []prometheus.Collector }

func (b *builder) counter(name, help string) prometheus.Counter {
	m := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	b.all = append(b.all, m)
	return m
}

func (b *builder) counters(name, help string, labels ...string) *prometheus.CounterVec {
	m := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	b.all = append(b.all, m)
	return m
}

func (b *builder) gauge(name, help string) prometheus.Gauge {
	m := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	b.all = append(b.all, m)
	return m
}

func (b *builder) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	m := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	b.all = append(b.all, m)
	return m
}

func (b *builder) histograms(name, help string, labels ...string) *prometheus.HistogramVec {
	m := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	b.all = append(b.all, m)
	return m
}

// startAtZero makes the series of the given label values, so that a rate has a
// first value before the first event.
func startAtZero(m *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		m.WithLabelValues(v)
	}
}

// oneOf sets the gauge of one label value to 1 and the others to 0.
func oneOf(m *prometheus.GaugeVec, values []string, is string) {
	for _, v := range values {
		m.WithLabelValues(v).Set(0)
	}
	m.WithLabelValues(is).Set(1)
}
