package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
)

// freshRate judges Do with fresh keys by its ratio to the naive durable
// composition, under two loads; its ratio to the floor says what the engine adds
// to what it sends.
func freshRate(ctx context.Context, b *bench) (outcome, error) {
	some, ofRaw, first, err := b.freshRatios(ctx, manyCallers)
	if err != nil {
		return outcome{results: first}, err
	}
	many, manyOfRaw, second, err := b.freshRatios(ctx, 4*manyCallers)
	all := append(first, second...)
	if err != nil {
		return outcome{results: all}, err
	}
	return outcome{
		figure:  fmt.Sprintf("%.1fx with 128 callers (%.2f of raw), %.1fx with 512 (%.2f of raw)", some, ofRaw, many, manyOfRaw),
		met:     some >= 5 && many >= 8,
		reached: some >= 7 && many >= 10,
		results: all,
	}, nil
}

func (b *bench) freshRatios(ctx context.Context, callers int) (naive, raw float64, _ []report.Result, _ error) {
	results, err := b.doRound(ctx, callers, (*bench).fresh, contend.NaiveDurable, contend.RawDo, contend.Engine)
	if err != nil {
		return 0, 0, results, err
	}
	picked, err := pick(results, contend.NaiveDurable.Name, contend.RawDo.Name, contend.Engine.Name)
	if err != nil {
		return 0, 0, results, err
	}
	return picked[2].Ratio(picked[0]).Median, picked[2].Ratio(picked[1]).Median, results, nil
}

// freshLatency judges a lone caller of Do.
func freshLatency(ctx context.Context, b *bench) (outcome, error) {
	results, err := b.doRound(ctx, 1, (*bench).fresh, contend.NaiveDurable, contend.Engine)
	if err != nil {
		return outcome{results: results}, err
	}
	picked, err := pick(results, contend.NaiveDurable.Name, contend.Engine.Name)
	if err != nil {
		return outcome{results: results}, err
	}
	ratio := measure.SpreadOf(measure.Ratios(picked[1].P50s(), picked[0].P50s())).Median
	return outcome{
		figure: fmt.Sprintf("p50 %.2fx of the naive durable composition's (%s)", ratio,
			report.Latency(measure.SpreadOf(picked[1].P50s()).Median)),
		met:     ratio <= 1,
		reached: ratio <= 0.7,
		results: results,
	}, nil
}

// replayRate judges replays from Redis by their ratio to a plain GET, and
// those from the near cache by their rate; the ratio to the floor says what the
// engine adds to one shared GET.
func replayRate(ctx context.Context, b *bench) (outcome, error) {
	results, err := b.doRound(ctx, manyCallers, (*bench).replays, contend.PlainGet, contend.RawDo, contend.Engine, contend.EngineNear)
	if err != nil {
		return outcome{results: results}, err
	}
	picked, err := pick(results, contend.PlainGet.Name, contend.RawDo.Name, contend.Engine.Name, contend.EngineNear.Name)
	if err != nil {
		return outcome{results: results}, err
	}
	ratio, ofRaw := picked[2].Ratio(picked[0]).Median, picked[2].Ratio(picked[1]).Median
	near := measure.SpreadOf(picked[3].Rates()).Median
	return outcome{
		figure:  fmt.Sprintf("%.1fx of a plain GET (%.2f of raw), near cache %.0f/s", ratio, ofRaw, near),
		met:     ratio >= 4,
		reached: ratio >= 7 && near >= 1_000_000,
		results: results,
	}, nil
}

// doRound measures doers under one load.
func (b *bench) doRound(ctx context.Context, callers int, build builder[contend.DoContender], contenders ...contend.DoContender) ([]report.Result, error) {
	entries, err := build(b, ctx, callers, contenders...)
	if err != nil {
		return nil, err
	}
	results, err := b.measure(ctx, b.preset, entries)
	return results, errors.Join(err, closeEntries(entries))
}
