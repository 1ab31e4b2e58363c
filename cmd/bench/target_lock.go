package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
)

// manyCallers is the load of the targets that speak of throughput.
const manyCallers = 128

// lockRate judges a lock of ours by its ratios to stock redsync and to the
// floor.
func lockRate(ours contend.LockContender, gateStock, gateRaw, goalStock, goalRaw float64) func(context.Context, *bench) (outcome, error) {
	return func(ctx context.Context, b *bench) (outcome, error) {
		results, err := b.lockRound(ctx, manyCallers, contend.Redsync, contend.Raw, ours)
		if err != nil {
			return outcome{results: results}, err
		}
		picked, err := pick(results, contend.Redsync.Name, contend.Raw.Name, ours.Name)
		if err != nil {
			return outcome{results: results}, err
		}
		stock, raw := picked[2].Ratio(picked[0]).Median, picked[2].Ratio(picked[1]).Median
		return outcome{
			figure:  fmt.Sprintf("%.1fx of redsync, %.2f of raw", stock, raw),
			met:     stock >= gateStock && raw >= gateRaw,
			reached: stock >= goalStock && raw >= goalRaw,
			results: results,
		}, nil
	}
}

// oneCaller judges the latency of a lone caller.
func oneCaller(ctx context.Context, b *bench) (outcome, error) {
	results, err := b.lockRound(ctx, 1, contend.Redsync, contend.Guarded)
	if err != nil {
		return outcome{results: results}, err
	}
	picked, err := pick(results, contend.Redsync.Name, contend.Guarded.Name)
	if err != nil {
		return outcome{results: results}, err
	}
	ratio := measure.SpreadOf(measure.Ratios(picked[1].P50s(), picked[0].P50s())).Median
	return outcome{
		figure: fmt.Sprintf("p50 %.2fx of redsync's (%s, redsync %s)", ratio,
			report.Latency(measure.SpreadOf(picked[1].P50s()).Median), report.Latency(measure.SpreadOf(picked[0].P50s()).Median)),
		met:     ratio <= 1,
		reached: ratio <= 0.7,
		results: results,
	}, nil
}

// lockRound measures locks under one load.
func (b *bench) lockRound(ctx context.Context, callers int, contenders ...contend.LockContender) ([]report.Result, error) {
	entries, err := b.locks(ctx, callers, contenders...)
	if err != nil {
		return nil, err
	}
	results, err := b.measure(ctx, b.preset, entries)
	return results, errors.Join(err, closeEntries(entries))
}
