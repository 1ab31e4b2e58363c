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
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/cmd/bench/internal/work"
)

// The storm of target P8.
const (
	stormProcesses = 4
	freshShare     = 0.1
	// zipf makes recent ids the likely ones: the last few are most of the
	// duplicates, and many of them are still in flight.
	zipfExponent = 1.1
	zipfRange    = 10_000
)

// A gust is what one process of a storm reports.
type gust struct {
	Ops    float64       `json:"ops"`
	Failed int64         `json:"failed"`
	First  string        `json:"first,omitempty"`
	P50    time.Duration `json:"p50"`
	P99    time.Duration `json:"p99"`
	CPU    time.Duration `json:"cpu"`
	Broken int64         `json:"broken"`
}

// storm judges duplicates over several processes: SQL statements per key, and
// the rate beside that of the ledger alone.
func storm(ctx context.Context, b *bench) (outcome, error) {
	contenders := []contend.DoContender{contend.EngineFallback, contend.EngineNear}
	results := make([]report.Result, len(contenders))
	for i, c := range contenders {
		results[i] = report.Result{Scenario: "storm", Contender: c.Name, Options: c.Options, Baseline: contenders[0].Name, Callers: b.preset.storm}
	}
	for round := range b.preset.rounds {
		for i, c := range contenders {
			fmt.Fprintf(b.notes, "storm, %s, round %d/%d\n", c.Name, round+1, b.preset.rounds)
			got, err := b.stormRound(ctx, c)
			if err != nil {
				return outcome{results: results}, fmt.Errorf("%s: %w", c.Name, err)
			}
			results[i].Rounds = append(results[i].Rounds, got)
		}
	}
	var statements []float64
	for _, round := range results[1].Rounds {
		statements = append(statements, round.Figures["statements per key"])
	}
	perKey, ratio := measure.SpreadOf(statements).Median, results[1].Ratio(results[0]).Median
	return outcome{
		figure:  fmt.Sprintf("%.2f statements per key, %.1fx of the ledger alone", perKey, ratio),
		met:     perKey <= 2 && ratio >= 3,
		reached: perKey <= 2 && ratio >= 5,
		results: results,
	}, nil
}

// stormRound runs one storm and checks that no id ran twice.
func (b *bench) stormRound(ctx context.Context, c contend.DoContender) (got report.Round, err error) {
	shared, err := newTally()
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, shared.remove()) }()
	before, err := b.cluster.transactions(ctx)
	if err != nil {
		return got, err
	}
	gusts, err := b.blow(ctx, c, shared)
	if err != nil {
		return got, err
	}
	// The processes have ended, so that the server has their counts.
	after, err := b.cluster.transactions(ctx)
	if err != nil {
		return got, err
	}
	got = sumOf(gusts, b.preset)
	got.Figures = map[string]float64{"statements per key": float64(after-before) / float64(shared.used()), "keys": float64(shared.used())}
	got.Checks = int64(shared.used())
	if twice := shared.twice(); twice > 0 || got.Broken > 0 {
		return got, fmt.Errorf("%d ids ran twice, %d responses were another's", twice, got.Broken)
	}
	if got.Failed > 0 {
		return got, fmt.Errorf("%d requests failed, the first: %s", got.Failed, got.FirstError)
	}
	return got, nil
}

// blow starts the processes, lets them run at the same time, and collects
// what they report.
func (b *bench) blow(ctx context.Context, c contend.DoContender, shared *tally) (gusts []gust, err error) {
	order := peerOrder{Role: "storm", Contender: c.Name, Servers: b.cluster.servers, Tally: shared.file.Name(),
		Name: fmt.Sprintf("storm-%d", time.Now().UnixNano()), Callers: b.preset.storm / stormProcesses, Warm: b.preset.warm, For: b.preset.round}
	var peers []*peer
	defer func() {
		for _, p := range peers {
			err = errors.Join(err, p.close())
		}
	}()
	for range stormProcesses {
		p, err := startPeer(ctx, order)
		if err != nil {
			return nil, err
		}
		peers = append(peers, p)
	}
	for _, p := range peers {
		if err := p.say("go"); err != nil {
			return nil, err
		}
	}
	for _, p := range peers {
		text, err := p.hear("gust")
		if err != nil {
			return nil, err
		}
		var one gust
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return nil, err
		}
		gusts = append(gusts, one)
	}
	return gusts, nil
}

// sumOf adds up what the processes report; of the latencies it takes the
// worst.
func sumOf(gusts []gust, p preset) report.Round {
	var r report.Round
	r.Callers, r.Seconds = p.storm, p.round.Seconds()
	for _, g := range gusts {
		r.Ops += g.Ops
		r.Failed += g.Failed
		r.Broken += g.Broken
		r.Usage.CPU += g.CPU
		r.P50, r.P99 = max(r.P50, g.P50), max(r.P99, g.P99)
		if r.FirstError == "" {
			r.FirstError = g.First
		}
	}
	return r
}

// transactions returns how many transactions the database has ended so far.
// Each statement of the ledger, a batch counted once, is one.
func (c *cluster) transactions(ctx context.Context) (n int64, err error) {
	conn, err := pgx.Connect(ctx, c.servers.Postgres)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()").Scan(&n)
	return n, err
}

// beGust is one process of a storm.
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
	job := stormJob(doer, shared, order.Name)
	load := measure.Load{Callers: order.Callers, Warm: order.Warm, For: order.For}
	sample := measure.Run(ctx, load, job.Op)
	text, err := json.Marshal(gust{
		Ops: sample.Ops, Failed: sample.Failed, First: sample.FirstError,
		P50: sample.Quantile(0.5), P99: sample.Quantile(0.99), CPU: sample.Usage.CPU, Broken: job.Check.Broken(),
	})
	fmt.Fprintln(out, "gust", string(text))
	return err
}

// stormJob sends fresh ids and, mostly, ids that were drawn not long ago, here
// or in another process.
func stormJob(doer contend.Doer, shared *tally, prefix string) work.Job {
	check := new(work.Check)
	zipf := newRecent()
	return work.Job{Check: check, Op: func(ctx context.Context, _, _ int) error {
		id := shared.used() - 1 - zipf.draw()
		if id < 0 || rand.Float64() < freshShare {
			var err error
			if id, err = shared.fresh(); err != nil {
				return err
			}
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
