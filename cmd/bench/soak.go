package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/internal/problems"
)

// A soak goes on for long, in rounds of a minute, or shorter ones if there
// would be fewer than ten. Between two of them nothing is asked, so that the
// heap can be compared.
const (
	soakRound  = time.Minute
	soakTenths = 10
	leastSoak  = time.Second
)

// soakDefault is the scenario of a soak without -scenario.
const soakDefault = "do-mixed"

// soakNames are the scenarios that can go on for long.
func soakNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// soakScenario is the scenario that is to go on for long.
func (o *options) soakScenario() string {
	if len(o.scenarios) == 0 {
		return soakDefault
	}
	return o.scenarios[0]
}

func (o *options) checkSoak(wrong *problems.List) {
	switch {
	case o.soak == 0:
		return
	case o.soak < leastSoak:
		wrong.Add("-soak %s: use at least %s", o.soak, leastSoak)
	case len(o.targets) > 0:
		wrong.Add("-soak and -target: use one of them")
	}
	if len(o.scenarios) > 1 || !slices.Contains(soakNames(), o.soakScenario()) {
		wrong.Add("-soak with -scenario %s: use one of %s", strings.Join(o.scenarios, ","), strings.Join(soakNames(), ", "))
	}
}

// goOn measures one contender of ours until the soak's time is over or ctx
// ends, which is no error, and judges whether it stayed as it was.
func (b *bench) goOn(ctx context.Context) ([]report.Target, []report.Result, error) {
	i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == b.soakScenario() })
	callers := manyCallers
	if b.callers > 0 {
		callers = b.callers
	}
	entries, err := scenarios()[i].soaked(ctx, b, callers)
	if err != nil {
		return nil, nil, err
	}
	if len(entries) == 0 {
		return nil, nil, fmt.Errorf("%s needs more callers than %d", b.soakScenario(), callers)
	}
	e := entries[0]
	result := report.Result{Scenario: "soak, " + e.scenario, Contender: e.contender, Options: e.options, Baseline: e.contender, Callers: e.callers}
	whole, err := b.soakRounds(ctx, e, &result)
	if err = errors.Join(err, e.close()); err != nil {
		return nil, []report.Result{result}, err
	}
	line := judgeSoak(result, whole)
	line.Work = fmt.Sprintf("%s with %d callers for %s", e.scenario, e.callers, b.soak)
	return []report.Target{line}, []report.Result{result}, nil
}

// soakRounds adds to the result round by round and tells of each. It returns
// how many took their full time: the last one may have been cut short.
func (b *bench) soakRounds(ctx context.Context, e *entry, result *report.Result) (whole int, err error) {
	p := b.preset
	p.round = min(soakRound, b.soak/soakTenths)
	rounds := int(b.soak / p.round)
	for n := 1; n <= rounds && ctx.Err() == nil; n++ {
		live := new(measure.Live)
		stop := b.follow(fmt.Sprintf("soak, round %d/%d", n, rounds), live)
		got, refused := b.once(ctx, p, e, live)
		stop()
		p.warm = 0 // it is warm now
		cut := ctx.Err() != nil
		if cut && got.Ops == 0 {
			break
		}
		rows, err := b.cluster.rows(ctx)
		if err != nil {
			return whole, err
		}
		heap := heapInUse()
		got.Figures = map[string]float64{soakHeap: float64(heap) / megabyte, soakRows: float64(rows)}
		result.Rounds = append(result.Rounds, got)
		fmt.Fprintf(b.notes, "soak, round %d/%d: %.0f/s, p99 %s, %d failed, heap %.1f MB, %d rows in the ledger\n",
			n, rounds, got.Rate(), report.Latency(float64(got.P99)), got.Failed, float64(heap)/megabyte, rows)
		// What was cut short may not have been checked yet.
		if refused != nil && result.Refused == "" && (!cut || got.Broken > 0) {
			result.Refused = refused.Error()
		}
		if !cut {
			whole++
		}
	}
	return whole, nil
}

// The figures that only the rounds of a soak have.
const (
	soakHeap = "heap MB"
	soakRows = "ledger rows"
)

const megabyte = 1 << 20

// judgeSoak compares the first tenth of the whole rounds with the last.
func judgeSoak(r report.Result, whole int) report.Target {
	line := report.Target{ID: "soak", Gate: "rate 0.9x, heap as it was, a tenth or 8 MB to spare", Goal: "rate 1x"}
	switch {
	case r.Refused != "":
		line.Figure = r.Refused
		return line
	case whole < 2:
		line.NotRun = "it ended before there were two rounds to compare"
		return line
	}
	tenth := max(1, whole/soakTenths)
	median := func(rounds []report.Round, f func(report.Round) float64) float64 {
		var figures []float64
		for _, round := range rounds {
			figures = append(figures, f(round))
		}
		return measure.SpreadOf(figures).Median
	}
	change := func(f func(report.Round) float64) (early, late float64) {
		return median(r.Rounds[:tenth], f), median(r.Rounds[whole-tenth:whole], f)
	}
	rate, lateRate := change(func(r report.Round) float64 { return r.Rate() })
	p99, lateP99 := change(func(r report.Round) float64 { return float64(r.P99) })
	heap, lateHeap := change(func(r report.Round) float64 { return r.Figures[soakHeap] })
	line.Figure = fmt.Sprintf("from %.0f/s, p99 %s, heap %.1f MB in the first tenth to %.0f/s, %s, %.1f MB in the last",
		rate, report.Latency(p99), heap, lateRate, report.Latency(lateP99), lateHeap)
	flat := flatHeap(uint64(heap*megabyte), uint64(lateHeap*megabyte))
	line.Met = rate > 0 && lateRate >= 0.9*rate && flat
	line.Reached = line.Met && lateRate >= rate
	return line
}

// rows returns how many rows the ledger has, if there is one. What ends a
// soak does not keep its last round from being told.
func (c *cluster) rows(ctx context.Context) (n int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), soakRound)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.servers.Postgres)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('idempotency_keys') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return 0, err
	}
	err = conn.QueryRow(ctx, "SELECT count(*) FROM idempotency_keys").Scan(&n)
	return n, err
}
