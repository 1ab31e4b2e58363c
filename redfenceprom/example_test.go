package redfenceprom_test

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
	"github.com/redfence/redfence/redfenceprom"
)

func Example() {
	metrics := redfenceprom.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	// metrics goes into redfence.Config.Observer; promhttp.HandlerFor serves
	// the registry.
	metrics.Observe(observe.FallbackRecovered{})
	metrics.Observe(observe.FallbackRecovered{})

	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		if f.GetName() == "idempotency_db_fallback_recovered_total" {
			fmt.Println(f.GetHelp())
			fmt.Println(f.GetMetric()[0].GetCounter().GetValue())
		}
	}
	// Output:
	// Completed responses that the cache had missed and the ledger had.
	// 2
}
