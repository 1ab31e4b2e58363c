package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/cmd/bench/internal/work"
)

// bench is one run.
type bench struct {
	options
	cluster *cluster
	notes   io.Writer // progress, for people
	serial  int       // numbers the rounds, so that no two use the same names
}

// An entry is one contender under one load, ready to be measured.
type entry struct {
	scenario, contender, options, baseline string
	callers                                int
	// prepare makes the operation of one round out of a prefix that no other
	// round uses.
	prepare func(ctx context.Context, prefix string) (work.Job, error)
	// figures, if set, adds what only this scenario has to a round.
	figures func() map[string]float64
	close   func() error
}

// measure runs the entries round by round, interleaved: what slows the
// machine down for a while slows all contenders of a round down. The order
// turns, so that none is always first.
func (b *bench) measure(ctx context.Context, p preset, entries []*entry) ([]report.Result, error) {
	results := make([]report.Result, len(entries))
	for i, e := range entries {
		results[i] = report.Result{
			Scenario: e.scenario, Contender: e.contender, Options: e.options,
			Baseline: e.baseline, Callers: e.callers,
		}
	}
	for round := range p.rounds {
		for turn := range entries {
			i := (turn + round) % len(entries)
			if err := ctx.Err(); err != nil {
				return nil, context.Cause(ctx)
			}
			got, err := b.round(ctx, p, entries[i], fmt.Sprintf("%d/%d", round+1, p.rounds))
			results[i].Rounds = append(results[i].Rounds, got)
			if err != nil && results[i].Refused == "" {
				results[i].Refused = err.Error()
			}
		}
	}
	return results, nil
}

// round measures one entry once. An error says why the figures must not be
// compared.
func (b *bench) round(ctx context.Context, p preset, e *entry, label string) (report.Round, error) {
	live := new(measure.Live)
	defer b.show(fmt.Sprintf("%s, %d callers, %s, round %s", e.scenario, e.callers, e.contender, label), live)()
	return b.once(ctx, p, e, live)
}

// once is round without words; live is told how it goes.
func (b *bench) once(ctx context.Context, p preset, e *entry, live *measure.Live) (report.Round, error) {
	b.serial++
	job, err := e.prepare(ctx, fmt.Sprintf("bench-%d-%d", time.Now().UnixNano(), b.serial))
	if err != nil {
		return report.Round{}, err
	}
	load := measure.Load{Callers: e.callers, Warm: p.warm, For: p.round, Rate: b.rate, Live: live}
	before := b.cluster.cpu(ctx)
	sample := measure.Run(ctx, load, job.Op)
	spent := b.cluster.cpu(ctx) - before
	got := report.NewRound(sample)
	got.ServerCPU = p.measured(spent)
	got.Checks, got.Broken = job.Check.Made(), job.Check.Broken()
	if e.figures != nil {
		got.Figures = e.figures()
	}
	return got, verdict(got, job.Check)
}

// verdict says why a round must not be compared; nil when it may.
func verdict(r report.Round, check *work.Check) error {
	if err := check.Err(); err != nil {
		return err
	}
	return tooManyFailed(r)
}

// tooManyFailed allows a failure in a thousand operations.
func tooManyFailed(r report.Round) error {
	if r.Failed > 0 && float64(r.Failed) > r.Ops/1000 {
		return fmt.Errorf("%d operations failed, the first: %s", r.Failed, r.FirstError)
	}
	return nil
}

// show writes a line about the round and, on a terminal, how it goes. The
// returned function ends it.
func (b *bench) show(what string, live *measure.Live) func() {
	if !isTerminal(b.notes) {
		fmt.Fprintln(b.notes, what)
	}
	return b.follow(what, live)
}

// follow shows on a terminal how a round goes, until the returned function is
// called.
func (b *bench) follow(what string, live *measure.Live) func() {
	if !isTerminal(b.notes) {
		return func() {}
	}
	const tick = 500 * time.Millisecond
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				fmt.Fprint(b.notes, "\r\x1b[K")
				return
			case <-ticker.C:
				ops, failed, slowest := live.Take()
				fmt.Fprintf(b.notes, "\r\x1b[K%s: %.0f/s, slowest %s, %d failed", what, float64(ops)/tick.Seconds(), report.Latency(float64(slowest)), failed)
			}
		}
	}()
	return func() { close(done); <-ended }
}

func closeEntries(entries []*entry) error {
	var errs []error
	for _, e := range entries {
		errs = append(errs, e.close())
	}
	return errors.Join(errs...)
}
