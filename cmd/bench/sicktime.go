package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/cmd/bench/internal/work"
)

// A time line of a fault: healthy, sick, healthy again.
const (
	sickBefore  = time.Second
	sickDuring  = 2 * time.Second
	sickAfter   = 1500 * time.Millisecond
	sickCallers = 64
)

// sickContenders are the locks that promise to live with a sick node, plain
// and with the options that help.
func sickContenders() []contend.LockContender {
	return []contend.LockContender{contend.Redsync, contend.RedsyncFailFast, contend.RedsyncTuned, contend.Guarded}
}

// sickTimelines shows how contenders fare while nodes are hung or killed and
// come back.
func (b *bench) sickTimelines(ctx context.Context) ([]report.Result, error) {
	var all []report.Result
	shown := []fault{hung.on(1), killed.on(1)}
	if b.presetName == "full" {
		shown = append(faults(), emptied.on(1), emptied.on(2), slow.on(1), slow.on(2))
	}
	for _, f := range shown {
		for _, c := range sickContenders() {
			fmt.Fprintf(b.notes, "sick, %s, %s\n", f, c.Name)
			var result report.Result
			err := b.onOwnNodes(ctx, f.name == slow.name, func(own *bench) (err error) {
				result, err = own.sickTimeline(ctx, f, c)
				return err
			})
			if err != nil {
				return all, fmt.Errorf("%s, %s: %w", f, c.Name, err)
			}
			all = append(all, result)
		}
	}
	return all, nil
}

func (b *bench) sickTimeline(ctx context.Context, f fault, c contend.LockContender) (result report.Result, err error) {
	locker, rival, err := openTwo(ctx, c, b.cluster.servers)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, locker.Close(), rival.Close()) }()
	job := work.LockCycles(locker, rival, fmt.Sprintf("sick-%d", time.Now().UnixNano()))
	load := measure.Load{Callers: sickCallers, Warm: b.preset.warm, For: sickBefore + sickDuring + sickAfter, Timeline: true}
	done := make(chan measure.Sample, 1)
	go func() { done <- measure.Run(ctx, load, job.Op) }()
	pause(ctx, load.Warm+sickBefore)
	err = b.cluster.while(f, func() error { pause(ctx, sickDuring); return nil })
	round := report.NewRound(<-done)
	round.Checks, round.Broken = job.Check.Made(), job.Check.Broken()
	result = report.Result{
		Scenario: "sick, " + f.String(), Contender: c.Name, Options: c.Options, Baseline: contend.Redsync.Name, Callers: sickCallers,
		Fault:  &report.Fault{What: f.String(), From: sickBefore.Seconds(), To: (sickBefore + sickDuring).Seconds()},
		Rounds: []report.Round{round},
	}
	if round.Broken > 0 {
		result.Refused = job.Check.Err().Error()
	}
	return result, err
}
