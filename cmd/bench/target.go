package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/redfence/redfence/cmd/bench/internal/report"
)

// A target is one line of the project's performance targets.
type target struct {
	id, work, gate, goal string
	// run measures and judges. notRun is why a target cannot be judged yet.
	run    func(ctx context.Context, b *bench) (outcome, error)
	notRun string
}

// An outcome is what a target's run found.
type outcome struct {
	figure       string
	met, reached bool
	results      []report.Result
}

func targetIDs() []string {
	ids := make([]string, len(targets()))
	for i, t := range targets() {
		ids[i] = t.id
	}
	return ids
}

// judge runs the chosen targets in their order and tells each one's line as
// soon as it is known.
func (b *bench) judge(ctx context.Context, tell func(report.Target)) ([]report.Target, []report.Result, error) {
	b.preset.pace = b.preset.judged
	var lines []report.Target
	var results []report.Result
	for _, t := range targets() {
		if !slices.Contains(b.targets, t.id) {
			continue
		}
		line := report.Target{ID: t.id, Work: t.work, Gate: t.gate, Goal: t.goal, NotRun: t.notRun}
		if t.run != nil {
			found, err := t.run(ctx, b)
			if ctx.Err() != nil {
				return lines, results, context.Cause(ctx)
			}
			line.Figure, line.Met, line.Reached = found.figure, found.met, found.reached
			if err != nil {
				line.NotRun, line.Met, line.Reached = err.Error(), false, false
			}
			for _, r := range found.results {
				if len(r.Rounds) == 0 {
					continue // it failed before anything was measured
				}
				r.Scenario = t.id + ", " + r.Scenario
				results = append(results, r)
			}
		}
		tell(line)
		lines = append(lines, line)
	}
	return lines, results, nil
}

// pick returns the results of the contenders that were measured, in the
// order given, or an error that says which one cannot be compared.
func pick(results []report.Result, contenders ...string) ([]report.Result, error) {
	var found []report.Result
	for _, name := range contenders {
		i := slices.IndexFunc(results, func(r report.Result) bool { return r.Contender == name })
		if i < 0 {
			return nil, fmt.Errorf("%s was not measured", name)
		}
		if results[i].Refused != "" {
			return nil, fmt.Errorf("%s: %s", name, results[i].Refused)
		}
		found = append(found, results[i])
	}
	return found, nil
}
