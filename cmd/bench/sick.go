package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/internal/servers"
)

// adaptation is how long contenders have to get used to a fault before they
// are measured.
const adaptation = time.Second

// A fault is what happens to some of the nodes.
type fault struct {
	name    string
	begin   func(*cluster, int) error
	end     func(*cluster, int) error
	victims int
}

// slowBy is how late commands and answers of a slow node are, together.
const slowBy = 50 * time.Millisecond

func onNode(do func(*servers.Redis) error) func(*cluster, int) error {
	return func(c *cluster, i int) error { return do(c.nodes[i]) }
}

func delay(d time.Duration) func(*cluster, int) error {
	return func(c *cluster, i int) error { c.links[i].slow(d / 2); return nil }
}

var (
	hung    = fault{name: "hung", begin: onNode((*servers.Redis).Pause), end: onNode((*servers.Redis).Resume)}
	killed  = fault{name: "killed", begin: onNode((*servers.Redis).Kill), end: onNode((*servers.Redis).Restart)}
	emptied = fault{name: "restarted empty", begin: onNode((*servers.Redis).Restart), end: func(*cluster, int) error { return nil }}
	slow    = fault{name: "slow by 50 ms", begin: delay(slowBy), end: delay(0)}
)

// on is the fault with that many victims.
func (f fault) on(victims int) fault { f.victims = victims; return f }

// faults are the four of target P3.
func faults() []fault { return []fault{hung.on(1), hung.on(2), killed.on(1), killed.on(2)} }

// String names the fault for people and results.
func (f fault) String() string { return fmt.Sprintf("%d %s", f.victims, f.name) }

var errNotOurs = errors.New("the nodes are not this program's own, so none is hung or killed; leave -redis and REDFENCE_BENCH_REDIS out")

// while runs do with the fault in force, and ends the fault whatever happens.
func (c *cluster) while(f fault, do func() error) (err error) {
	if len(c.nodes) < 2*f.victims+1 {
		return errNotOurs
	}
	for i := range f.victims {
		if err := f.begin(c, i); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.end(c, i)) }()
	}
	return do()
}

// sickness judges the stand-alone lock with nodes hung and killed against
// the same lock a moment before.
func sickness(ctx context.Context, b *bench) (outcome, error) {
	found := outcome{met: true, reached: true}
	for _, f := range faults() {
		healthy, sick, err := b.beforeAndDuring(ctx, f, contend.Guarded)
		found.results = append(append(found.results, healthy...), sick...)
		if err != nil {
			return found, fmt.Errorf("%s: %w", f, err)
		}
		rate := sick[0].Ratio(healthy[0]).Median
		tail := measure.SpreadOf(measure.Ratios(sick[0].P99s(), healthy[0].P99s())).Median
		if found.figure != "" {
			found.figure += ", "
		}
		found.figure += fmt.Sprintf("%s: %.2fx rate, %.1fx p99", f, rate, tail)
		found.met = found.met && rate >= 0.8 && tail <= 2
		found.reached = found.reached && rate >= 0.95 && tail <= 1.1
	}
	return found, nil
}

// beforeAndDuring measures contenders without and with the fault, a round of
// each in turn, so that both see the same machine. Each pair has nodes of its
// own: a node that was killed before would not be as good as new.
func (b *bench) beforeAndDuring(ctx context.Context, f fault, contenders ...contend.LockContender) (healthy, sick []report.Result, err error) {
	for range b.preset.rounds {
		err := b.onOwnNodes(ctx, false, func(own *bench) error {
			before, during, err := own.pair(ctx, f, contenders)
			healthy = gather(healthy, before, "lock, before "+f.String())
			sick = gather(sick, during, "lock, "+f.String())
			return err
		})
		if err != nil {
			return healthy, sick, err
		}
	}
	for _, r := range append(healthy, sick...) {
		if r.Refused != "" {
			return healthy, sick, errors.New(r.Refused)
		}
	}
	return healthy, sick, nil
}

func (b *bench) pair(ctx context.Context, f fault, contenders []contend.LockContender) (before, during []report.Result, err error) {
	entries, err := b.locks(ctx, manyCallers, contenders...)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, closeEntries(entries)) }()
	one := b.preset
	one.rounds, one.warm = 1, adaptation
	if before, err = b.measure(ctx, one, entries); err != nil {
		return before, nil, err
	}
	err = b.cluster.while(f, func() (err error) {
		during, err = b.measure(ctx, one, entries)
		return err
	})
	return before, during, err
}

// onOwnNodes runs do with fresh Redis nodes and the same Postgres, with a link
// in front of each node if asked for.
func (b *bench) onOwnNodes(ctx context.Context, linked bool, do func(*bench) error) (err error) {
	if b.cluster.nodes == nil {
		return errNotOurs
	}
	nodes, err := startNodes(ctx)
	if err != nil {
		return err
	}
	own := *b
	own.cluster = &cluster{servers: contend.Servers{Postgres: b.cluster.servers.Postgres}}
	own.cluster.add(nodes)
	defer func() { err = errors.Join(err, own.cluster.Close()) }()
	if linked {
		if err := own.cluster.link(); err != nil {
			return err
		}
	}
	if err := contend.Begin(ctx, own.cluster.servers); err != nil {
		return err
	}
	return do(&own)
}

// gather adds the rounds of more to all, which has the same contenders.
func gather(all, more []report.Result, scenario string) []report.Result {
	for i := range more {
		more[i].Scenario = scenario
		if i >= len(all) {
			all = append(all, more[i])
			continue
		}
		all[i].Rounds = append(all[i].Rounds, more[i].Rounds...)
		if all[i].Refused == "" {
			all[i].Refused = more[i].Refused
		}
	}
	return all
}
