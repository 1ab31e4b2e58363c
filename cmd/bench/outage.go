package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/cmd/bench/internal/work"
	"github.com/redfence/redfence/observe"
)

// The outage of target P9: how long all is well, all nodes are dead, and they
// are back. Sixty-four callers keep the machine busy without drowning it, so
// that latencies tell of the outage and not of a queue.
const (
	outageCallers = 64
	outageBefore  = time.Second
	outageDuring  = 3 * time.Second
	outageAfter   = 5 * time.Second
)

// A request is what became of one fresh key.
type request struct {
	end   time.Time
	took  time.Duration
	route observe.Route
	err   error
}

// outage judges Do while every node dies and comes back: latencies from the
// kill on, lost requests, time back to the primary route.
func outage(ctx context.Context, b *bench) (outcome, error) {
	var results []report.Result
	var tails, returns []float64
	lost := 0
	for range b.preset.rounds {
		fmt.Fprintln(b.notes, "outage: all nodes killed under load, and back")
		var one anOutage
		err := b.onOwnNodes(ctx, false, func(own *bench) (err error) {
			doer, err := contend.OpenEngine(ctx, own.cluster.servers, 0)
			if err != nil {
				return err
			}
			one, err = own.outageRound(ctx, doer)
			return errors.Join(err, doer.Close())
		})
		if err != nil {
			return outcome{results: results}, err
		}
		tails, returns = append(tails, one.p99), append(returns, one.back)
		lost += one.lost
		results = gather(results, []report.Result{one.result}, "outage")
	}
	p99, back := measure.SpreadOf(tails).Median, measure.SpreadOf(returns).Median
	return outcome{
		figure:  fmt.Sprintf("fresh keys p99 %s, %d lost, back in %s", report.Latency(p99), lost, report.Latency(back)),
		met:     p99 <= 1e9 && lost == 0 && back <= 3e9,
		reached: p99 <= 200e6 && lost == 0 && back <= 1e9,
		results: results,
	}, nil
}

// anOutage is what one round found, in nanoseconds.
type anOutage struct {
	p99, back float64
	lost      int
	result    report.Result
}

func (b *bench) outageRound(ctx context.Context, doer *contend.EngineDoer) (anOutage, error) {
	var mu sync.Mutex
	var all []request
	prefix := fmt.Sprintf("outage-%d", time.Now().UnixNano())
	load := measure.Load{Callers: outageCallers, For: outageBefore + outageDuring + outageAfter}
	done := make(chan measure.Sample, 1)
	go func() {
		done <- measure.Run(ctx, load, func(ctx context.Context, caller, n int) error {
			id := fmt.Sprintf("%s/%d/%d", prefix, caller, n)
			start := time.Now()
			res, err := doer.Run(ctx, id, func() ([]byte, error) { return work.Body(id, bodySize), nil })
			if err == nil && res.Outcome != redfence.Executed {
				err = fmt.Errorf("a fresh key was %s", res.Outcome)
			}
			mu.Lock()
			all = append(all, request{time.Now(), time.Since(start), res.Route, err})
			mu.Unlock()
			return err
		})
	}()
	killed, back, err := b.cluster.killAll(ctx)
	sample := <-done
	if err != nil {
		return anOutage{}, err
	}
	return judgeOutage(all, sample, killed, back)
}

// killAll kills every node after a while, and restarts them empty after
// another; it returns when they were gone and when they were back.
func (c *cluster) killAll(ctx context.Context) (killed, back time.Time, err error) {
	pause(ctx, outageBefore)
	killed = time.Now()
	for _, node := range c.nodes {
		err = errors.Join(err, node.Kill())
	}
	pause(ctx, outageDuring)
	var restarts sync.WaitGroup
	errs := make([]error, len(c.nodes))
	for i, node := range c.nodes {
		restarts.Go(func() { errs[i] = node.Restart() })
	}
	restarts.Wait()
	return killed, time.Now(), errors.Join(err, errors.Join(errs...))
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func judgeOutage(all []request, sample measure.Sample, killed, back time.Time) (anOutage, error) {
	var during []time.Duration
	var first time.Time
	found := anOutage{}
	for _, r := range all {
		if r.err != nil {
			found.lost++
			continue
		}
		// Those under way when the nodes died suffer most, and count.
		if r.end.After(killed) && r.end.Add(-r.took).Before(back) {
			during = append(during, r.took)
		}
		if r.route == observe.Primary && r.end.Add(-r.took).After(back) && (first.IsZero() || r.end.Before(first)) {
			first = r.end
		}
	}
	if len(during) == 0 {
		return found, errors.New("no key was served during the outage")
	}
	if first.IsZero() {
		return found, fmt.Errorf("the primary route was not taken again within %v", outageAfter)
	}
	slices.Sort(during)
	found.p99 = float64(during[len(during)*99/100])
	found.back = float64(first.Sub(back))
	round := report.NewRound(sample)
	round.Checks = int64(len(all))
	round.Figures = map[string]float64{"p99 ms": found.p99 / 1e6, "back ms": found.back / 1e6, "lost": float64(found.lost)}
	found.result = report.Result{
		Contender: contend.EngineNear.Name, Options: contend.EngineNear.Options, Baseline: contend.EngineNear.Name,
		Callers: outageCallers, Rounds: []report.Round{round},
	}
	return found, nil
}
