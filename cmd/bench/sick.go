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
	entries, err := b.locks(ctx, manyCallers, contend.Guarded)
	if err != nil {
		return outcome{}, err
	}
	found, err := b.sicknessOf(ctx, entries)
	return found, errors.Join(err, closeEntries(entries))
}

func (b *bench) sicknessOf(ctx context.Context, entries []*entry) (outcome, error) {
	found := outcome{met: true, reached: true}
	for _, f := range faults() {
		healthy, sick, err := b.beforeAndDuring(ctx, f, entries)
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

// beforeAndDuring measures without and with the fault, a round of each in
// turn, so that both see the same machine.
func (b *bench) beforeAndDuring(ctx context.Context, f fault, entries []*entry) (healthy, sick []report.Result, err error) {
	one := b.preset
	one.rounds = 1
	adapted := one
	adapted.warm = adaptation
	for range b.preset.rounds {
		before, err := b.measure(ctx, one, entries)
		healthy = gather(healthy, before, "lock, before "+f.String())
		if err == nil {
			err = b.cluster.while(f, func() error {
				during, err := b.measure(ctx, adapted, entries)
				sick = gather(sick, during, "lock, "+f.String())
				return err
			})
		}
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
