package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/cmd/bench/internal/work"
)

// beGust is one process of a storm. It reports a round of its own.
func beGust(ctx context.Context, order peerOrder, lines *bufio.Scanner, out io.Writer) (err error) {
	contenders := doContenders()
	i := slices.IndexFunc(contenders, func(c contend.DoContender) bool { return c.Name == order.Contender })
	if i < 0 {
		return fmt.Errorf("unknown contender %q", order.Contender)
	}
	shared, err := openTally(order.Tally)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.close()) }()
	doer, err := contenders[i].Open(ctx, order.Servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, doer.Close()) }()
	fmt.Fprintln(out, "ready")
	if !lines.Scan() {
		return nil
	}
	job := stormJob(doer, shared, order.Name, order.Duplicates)
	load := measure.Load{Callers: order.Callers, Warm: order.Warm, For: order.For}
	got := report.NewRound(measure.Run(ctx, load, job.Op))
	got.Checks, got.Broken = job.Check.Made(), job.Check.Broken()
	text, err := json.Marshal(got)
	fmt.Fprintln(out, "gust", string(text))
	return err
}

// stormID chooses the id of a request: the first one is fresh in any case.
func stormID(shared *tally, zipf *recent, duplicates float64) (int, error) {
	if used := shared.used(); used > 0 && rand.Float64() < duplicates {
		return used - 1 - zipf.draw(used), nil
	}
	return shared.fresh()
}

// stormJob sends fresh ids and, as the given share of its requests, ids that
// were drawn not long ago, here or in another process.
func stormJob(doer contend.Doer, shared *tally, prefix string, duplicates float64) work.Job {
	check := new(work.Check)
	zipf := newRecent()
	return work.Job{Check: check, Op: func(ctx context.Context, _, _ int) error {
		id, err := stormID(shared, zipf, duplicates)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s/%d", prefix, id)
		body, _, err := doer.Do(ctx, name, func() ([]byte, error) {
			shared.start(id)
			return work.Body(name, bodySize), nil
		})
		if err == nil {
			check.Expect(work.BodyOf(body, name), name)
		}
		return err
	}}
}
