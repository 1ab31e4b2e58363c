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
	begin   func(*servers.Redis) error
	end     func(*servers.Redis) error
	victims int
}

// faults are the four of target P3.
func faults() []fault {
	hung := fault{name: "hung", begin: (*servers.Redis).Pause, end: (*servers.Redis).Resume}
	killed := fault{name: "killed", begin: (*servers.Redis).Kill, end: (*servers.Redis).Restart}
	var all []fault
	for _, f := range []fault{hung, killed} {
		for victims := 1; victims <= 2; victims++ {
			f.victims = victims
			all = append(all, f)
		}
	}
	return all
}

// String names the fault for people and results.
func (f fault) String() string { return fmt.Sprintf("%d %s", f.victims, f.name) }

var errNotOurs = errors.New("the nodes are not this program's own, so none is hung or killed; leave -redis and REDIS_URL out")

// while runs do with the fault in force, and ends the fault whatever happens.
func (c *cluster) while(f fault, do func() error) (err error) {
	if len(c.nodes) < 2*f.victims+1 {
		return errNotOurs
	}
	for _, node := range c.nodes[:f.victims] {
		if err := f.begin(node); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.end(node)) }()
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
		err := b.onOwnNodes(ctx, func(own *bench) error {
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

// onOwnNodes runs do with fresh Redis nodes and the same Postgres.
func (b *bench) onOwnNodes(ctx context.Context, do func(*bench) error) (err error) {
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
