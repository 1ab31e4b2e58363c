package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
)

// Which ids duplicates ask for: zipf makes recent ids the likely ones. The
// last few are most of the duplicates, and many of them are still in flight.
const (
	zipfExponent = 1.1
	zipfRange    = 10_000
)

// What a storm is unless the command line says otherwise, and what it always
// is for target P8.
const (
	stormProcesses  = 4
	stormDuplicates = 0.9
)

// A stormLoad says how a storm blows.
type stormLoad struct {
	callers    int // of all processes together
	processes  int
	duplicates float64 // the share of the requests whose id was used before
}

// String names the scenario.
func (l stormLoad) String() string {
	return fmt.Sprintf("storm, %s %% duplicates, processes: %d", strconv.FormatFloat(100*l.duplicates, 'g', 3, 64), l.processes)
}

// share returns how many of the callers process i has.
func (l stormLoad) share(i int) int { return l.callers*(i+1)/l.processes - l.callers*i/l.processes }

// stormScenario compares all who promise to run an id once, however many
// processes ask. Each process has a caller at least.
func (b *bench) stormScenario(ctx context.Context) ([]report.Result, error) {
	load := stormLoad{callers: b.preset.storm, processes: b.processes, duplicates: b.duplicates}
	if b.callers > 0 {
		load.callers = b.callers
	}
	load.processes = min(load.processes, load.callers)
	usual := b.preset.pace
	b.preset.pace = b.preset.judged // the processes of each round are new, and some have many connections to make
	defer func() { b.preset.pace = usual }()
	return b.storms(ctx, load, contend.NaiveDurable, contend.LedgerOnly, contend.EngineFallback, contend.EngineNear)
}

// storm judges duplicates over several processes: SQL statements per key, and
// the rate beside that of our ledger alone, the fallback route. What a table and a
// statement for each step would do is measured beside it, and judges nothing.
func storm(ctx context.Context, b *bench) (outcome, error) {
	load := stormLoad{callers: b.preset.storm, processes: stormProcesses, duplicates: stormDuplicates}
	results, err := b.storms(ctx, load, contend.EngineFallback, contend.LedgerOnly, contend.EngineNear)
	if err != nil {
		return outcome{results: results}, err
	}
	picked, err := pick(results, contend.EngineFallback.Name, contend.LedgerOnly.Name, contend.EngineNear.Name)
	if err != nil {
		return outcome{results: results}, err
	}
	for _, r := range picked {
		if n := r.Failed(); n > 0 {
			return outcome{results: results}, fmt.Errorf("%s: %d requests failed", r.Contender, n)
		}
	}
	var statements []float64
	for _, round := range picked[2].Rounds {
		statements = append(statements, round.Figures["statements per key"])
	}
	perKey, ratio := measure.SpreadOf(statements).Median, picked[2].Ratio(picked[0]).Median
	return outcome{
		figure:  fmt.Sprintf("%.2f statements per key, %.1fx of the ledger alone (%.1fx of ledger-only)", perKey, ratio, picked[2].Ratio(picked[1]).Median),
		met:     perKey <= 2 && ratio >= 3,
		reached: perKey <= 2 && ratio >= 5,
		results: results,
	}, nil
}

// storms lets one storm after another blow, the contenders interleaved in an
// order that turns. The first one is the baseline.
func (b *bench) storms(ctx context.Context, load stormLoad, contenders ...contend.DoContender) ([]report.Result, error) {
	results := make([]report.Result, len(contenders))
	for i, c := range contenders {
		results[i] = report.Result{Scenario: load.String(), Contender: c.Name, Options: c.Options, Baseline: contenders[0].Name, Callers: load.callers}
	}
	for round := range b.preset.rounds {
		for turn := range contenders {
			i := (turn + round) % len(contenders)
			fmt.Fprintf(b.notes, "%s, %s, round %d/%d\n", load, contenders[i].Name, round+1, b.preset.rounds)
			got, refused, err := b.stormRound(ctx, load, contenders[i])
			if err != nil {
				return results, fmt.Errorf("%s: %w", contenders[i].Name, err)
			}
			results[i].Rounds = append(results[i].Rounds, got)
			if refused != nil && results[i].Refused == "" {
				results[i].Refused = refused.Error()
			}
		}
	}
	return results, nil
}

// stormRound runs one storm and checks that no id ran twice. refused says why
// it must not be compared.
func (b *bench) stormRound(ctx context.Context, load stormLoad, c contend.DoContender) (got report.Round, refused, err error) {
	shared, err := newTally()
	if err != nil {
		return got, nil, err
	}
	defer func() { err = errors.Join(err, shared.remove()) }()
	before, err := b.cluster.transactions(ctx)
	if err != nil {
		return got, nil, err
	}
	gusts, spent, err := b.blow(ctx, load, c, shared)
	if err != nil {
		return got, nil, err
	}
	// The processes have ended, so that the server has their counts.
	after, err := b.cluster.transactions(ctx)
	if err != nil {
		return got, nil, err
	}
	got = sumOf(gusts)
	got.Seconds = b.preset.round.Seconds()
	got.ServerCPU = b.preset.measured(spent)
	got.Figures = map[string]float64{"statements per key": float64(after-before) / float64(max(1, shared.used())), "keys": float64(shared.used())}
	return got, stormVerdict(got, shared.twice()), nil
}

// stormVerdict says why a storm must not be compared; nil when it may.
func stormVerdict(r report.Round, twice int) error {
	if twice > 0 || r.Broken > 0 {
		return fmt.Errorf("%d ids ran twice, %d responses were not the id's own", twice, r.Broken)
	}
	return tooManyFailed(r)
}

// blow starts the processes, lets them run at the same time, and collects
// what they report, and the processor time that the servers spent meanwhile.
func (b *bench) blow(ctx context.Context, load stormLoad, c contend.DoContender, shared *tally) (gusts []report.Round, spent time.Duration, err error) {
	order := peerOrder{
		Role: "storm", Contender: c.Name, Servers: b.cluster.servers, Tally: shared.file.Name(),
		Name: fmt.Sprintf("storm-%d", time.Now().UnixNano()), Duplicates: load.duplicates, Warm: b.preset.warm, For: b.preset.round,
	}
	order.Servers.Processes = load.processes
	var peers []*peer
	defer func() {
		for _, p := range peers {
			err = errors.Join(err, p.close())
		}
	}()
	for i := range load.processes {
		order.Callers = load.share(i)
		p, err := startPeer(ctx, order)
		if err != nil {
			return nil, 0, err
		}
		peers = append(peers, p)
	}
	before := b.cluster.cpu(ctx)
	for _, p := range peers {
		if err := p.say("go"); err != nil {
			return nil, 0, err
		}
	}
	for _, p := range peers {
		text, err := p.hear("gust")
		if err != nil {
			return nil, 0, err
		}
		var one report.Round
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			return nil, 0, err
		}
		gusts = append(gusts, one)
	}
	return gusts, b.cluster.cpu(ctx) - before, nil
}

// sumOf adds up what the processes report; of the latencies it takes the
// worst.
func sumOf(gusts []report.Round) report.Round {
	var r report.Round
	for _, g := range gusts {
		r.Callers += g.Callers
		r.Ops += g.Ops
		r.Failed += g.Failed
		r.Checks += g.Checks
		r.Broken += g.Broken
		r.Usage.CPU += g.Usage.CPU
		r.P50, r.P90, r.P95 = max(r.P50, g.P50), max(r.P90, g.P90), max(r.P95, g.P95)
		r.P99, r.P999, r.Max = max(r.P99, g.P99), max(r.P999, g.P999), max(r.Max, g.Max)
		if r.FirstError == "" {
			r.FirstError = g.FirstError
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
