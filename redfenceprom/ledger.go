package redfenceprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/redfence/redfence/observe"
)

// ledger is what the Postgres ledger does beside answering.
type ledger struct {
	sweeps            *prometheus.CounterVec
	sweepTime         *prometheus.HistogramVec
	rows              prometheus.Counter
	splits, adoptions prometheus.Counter
}

func newLedger(b *builder) ledger {
	l := ledger{
		sweeps: b.counters("redfence_ledger_sweeps_total", "Batches of the sweeper, by result.", "result"),
		sweepTime: b.histograms("redfence_ledger_sweep_duration_seconds",
			"Time of one batch of the sweeper.", "result"),
		rows: b.counter("redfence_ledger_swept_rows_total", "Expired rows that the sweeper has removed."),
		splits: b.counter("redfence_ledger_batch_splits_total",
			"Batches that failed as a whole and were run again in parts."),
		adoptions: b.counter("redfence_ledger_adoptions_total",
			"Fail-overs of the database that the ledger has found and gone on after."),
	}
	startAtZero(l.sweeps, "ok", "failed")
	return l
}

func (l ledger) observe(e observe.Event) {
	switch e := e.(type) {
	case observe.LedgerSwept:
		result := "ok"
		if e.Err != nil {
			result = "failed"
		}
		l.sweeps.WithLabelValues(result).Inc()
		l.sweepTime.WithLabelValues(result).Observe(e.Took.Seconds())
		l.rows.Add(float64(e.Rows))
	case observe.LedgerSplit:
		l.splits.Inc()
	case observe.LedgerAdopted:
		l.adoptions.Inc()
	}
}
