package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/cmd/bench/internal/work"
)

//go:embed sql/fill.sql
var fillLedger string

const fewRows = 1_000

// memorySlack is what a heap may grow by and still be called flat: a tenth, and
// some megabytes that garbage collection leaves or takes as it pleases.
const memorySlack = 8 << 20

// growth judges fresh keys on a small ledger beside a large one, and the heap
// of an engine that sees many distinct keys.
func growth(ctx context.Context, b *bench) (outcome, error) {
	if b.cluster.postgres == nil {
		return outcome{}, errors.New("the database is not this program's own, so it is not filled; leave -postgres and REDFENCE_BENCH_POSTGRES out")
	}
	results, err := b.growthRounds(ctx)
	if err != nil {
		return outcome{results: results}, err
	}
	picked, err := pick(results, rowsName(fewRows), rowsName(b.preset.rows))
	if err != nil {
		return outcome{results: results}, err
	}
	ratio := picked[1].Ratio(picked[0]).Median
	early, late, err := b.heap(ctx)
	if err != nil {
		return outcome{results: results}, err
	}
	flat := flatHeap(early, late)
	return outcome{
		figure: fmt.Sprintf("%.2fx with %d rows; heap %d MB after %d keys, %d MB after %d", ratio, b.preset.rows,
			early>>20, b.preset.keys/10, late>>20, b.preset.keys),
		met:     ratio >= 0.9 && flat && b.preset.rows >= 1_000_000 && b.preset.keys >= 1_000_000,
		reached: ratio >= 0.9 && flat && b.preset.rows >= 10_000_000,
		results: results,
	}, nil
}

// flatHeap reports whether a heap has not grown from early to late.
func flatHeap(early, late uint64) bool { return late <= early+early/10+memorySlack }

func rowsName(rows int) string { return fmt.Sprintf("redfence, %d rows", rows) }

// growthRounds measures fresh keys on two databases of one server in turn.
func (b *bench) growthRounds(ctx context.Context) ([]report.Result, error) {
	var entries []*entry
	for _, rows := range []int{fewRows, b.preset.rows} {
		e, err := b.ledgerWith(ctx, rows)
		if err != nil {
			return nil, errors.Join(err, closeEntries(entries))
		}
		entries = append(entries, e)
	}
	results, err := b.measure(ctx, b.preset, entries)
	return results, errors.Join(err, closeEntries(entries))
}

// ledgerWith makes a database whose ledger holds that many completed rows,
// and an entry that runs fresh keys on it. Each round begins with a
// checkpoint, so that it pays for writing pages in full.
func (b *bench) ledgerWith(ctx context.Context, rows int) (*entry, error) {
	name := fmt.Sprintf("growth_%d", rows)
	url := b.cluster.postgres.DatabaseURL(name)
	if err := statement(ctx, b.cluster.servers.Postgres, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	doer, err := contend.OpenEngine(ctx, contend.Servers{Redis: b.cluster.servers.Redis, Postgres: url}, 0)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(b.notes, "growth: filling a ledger with %d rows\n", rows)
	fill := strings.NewReplacer(":rows", fmt.Sprint(rows), ":size", fmt.Sprint(bodySize)).Replace(fillLedger)
	if err := statement(ctx, url, fill); err != nil {
		return nil, errors.Join(err, doer.Close())
	}
	if err := statement(ctx, url, "VACUUM ANALYZE idempotency_keys"); err != nil {
		return nil, errors.Join(err, doer.Close())
	}
	return &entry{
		scenario: "growth", contender: rowsName(rows), options: contend.EngineNear.Options, baseline: rowsName(fewRows),
		callers: manyCallers, close: doer.Close,
		prepare: func(ctx context.Context, prefix string) (work.Job, error) {
			return work.Fresh(doer, prefix, bodySize), statement(ctx, url, "CHECKPOINT")
		},
	}, nil
}

// statement runs one statement on a connection of its own.
func statement(ctx context.Context, url, sql string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err = conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%.40s…: %w", sql, err)
	}
	return nil
}

// heap sends many distinct keys through one engine and returns its heap after
// a tenth of them and after all.
func (b *bench) heap(ctx context.Context) (early, late uint64, err error) {
	fmt.Fprintf(b.notes, "growth: %d distinct keys through one engine\n", b.preset.keys)
	doer, err := contend.OpenEngine(ctx, b.cluster.servers, 0)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, doer.Close()) }()
	prefix := fmt.Sprintf("heap-%d", time.Now().UnixNano())
	send := func(from, to int) error {
		return work.Each(to-from, 4*manyCallers, func(i int) error {
			id := fmt.Sprintf("%s/%d", prefix, from+i)
			_, _, err := doer.Do(ctx, id, func() ([]byte, error) { return work.Body(id, bodySize), nil })
			return err
		})
	}
	if err := send(0, b.preset.keys/10); err != nil {
		return 0, 0, err
	}
	early = heapInUse()
	if err := send(b.preset.keys/10, b.preset.keys); err != nil {
		return 0, 0, err
	}
	return early, heapInUse(), nil
}

// heapInUse returns the bytes that are reachable now.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools are emptied by the second
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
