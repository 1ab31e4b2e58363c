package redfenceprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

// nodes are the Redis nodes as this process sees them.
type nodes struct {
	quorum                     prometheus.Gauge
	up                         *prometheus.GaugeVec
	outages, rejoins, warnings *prometheus.CounterVec
	otherSets                  prometheus.Counter
}

func newNodes(b *builder) nodes {
	return nodes{
		quorum: b.gauge("redfence_quorum_size", "How many Redis nodes have to agree."),
		up:     b.gauges("redfence_node_up", "1 while this process sends to the Redis node, 0 while it does not.", "node"),
		outages: b.counters("redfence_node_outages_total",
			"How often this process stopped sending to the Redis node.", "node"),
		rejoins: b.counters("redfence_node_rejoins_total",
			"How often the Redis node got its vote back after it had lost its memory.", "node"),
		warnings: b.counters("redfence_node_warnings_total",
			"Settings of the Redis node that endanger locks.", "node"),
		otherSets: b.counter("redfence_node_set_differences_total",
			"Starts of an engine with other Redis nodes than those that its ledger has recorded."),
	}
}

func (n nodes) observe(e observe.Event) {
	switch e := e.(type) {
	case observe.EngineStarted:
		n.quorum.Set(float64(e.Quorum))
		for _, list := range [][]string{e.Nodes, e.CacheNodes} {
			for _, node := range list {
				n.up.WithLabelValues(node).Set(1)
				startAtZero(n.outages, node)
			}
		}
	case observe.NodeSetDiffers:
		n.otherSets.Inc()
	case observe.NodeDown:
		n.up.WithLabelValues(e.Node).Set(0)
		n.outages.WithLabelValues(e.Node).Inc()
	case observe.NodeUp:
		n.up.WithLabelValues(e.Node).Set(1)
	case observe.NodeRejoined:
		n.rejoins.WithLabelValues(e.Node).Inc()
	case observe.NodeWarning:
		n.warnings.WithLabelValues(e.Node).Inc()
	}
}
