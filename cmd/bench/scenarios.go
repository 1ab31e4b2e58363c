package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/cmd/bench/internal/work"
)

// bodySize is the size of a response, in bytes, where none is said.
const bodySize = 300

// payloadCallers keep large responses from filling memory.
const payloadCallers = 16

// replayIDs is how many completed ids are asked for again.
const replayIDs = 2000

// A scenario is one kind of work that contenders are compared at: all of them,
// or in a soak ours alone.
type scenario struct {
	name             string
	compared, soaked func(ctx context.Context, b *bench, callers int) ([]*entry, error)
}

// scenarios are those that are measured round by round, in this order.
func scenarios() []scenario {
	return []scenario{
		scenarioOf("lock", (*bench).locks, contend.Guarded, lockContenders()),
		scenarioOf("contended", (*bench).contended, contend.Guarded, lockContenders()),
		scenarioOf("do-fresh", (*bench).fresh, contend.EngineNear, doContenders()),
		scenarioOf("do-replay", (*bench).replays, contend.EngineNear, doContenders()),
		scenarioOf("do-mixed", (*bench).mixed, contend.EngineNear, doContenders()),
	}
}

// A builder makes the entries of one scenario for contenders of one kind.
type builder[C any] func(b *bench, ctx context.Context, callers int, contenders ...C) ([]*entry, error)

func scenarioOf[C any](name string, build builder[C], ours C, all []C) scenario {
	with := func(contenders ...C) func(context.Context, *bench, int) ([]*entry, error) {
		return func(ctx context.Context, b *bench, callers int) ([]*entry, error) {
			return build(b, ctx, callers, contenders...)
		}
	}
	return scenario{name: name, compared: with(all...), soaked: with(ours)}
}

func scenarioNames() []string {
	return []string{"lock", "contended", "do-fresh", "do-replay", "do-mixed", "storm", "payload", "hand-off", "sick"}
}

func lockContenders() []contend.LockContender {
	return []contend.LockContender{
		contend.Redsync, contend.RedsyncFailFast, contend.RedsyncTuned, contend.Redislock,
		contend.Rueidislock, contend.Advisory, contend.LeaseRow, contend.Raw,
		contend.Unguarded, contend.Guarded,
	}
}

func doContenders() []contend.DoContender {
	return []contend.DoContender{contend.NaiveDurable, contend.Naive, contend.LedgerOnly, contend.Engine, contend.EngineNear, contend.EngineFallback}
}

// compare measures the chosen scenarios, each with each number of callers.
func (b *bench) compare(ctx context.Context) ([]report.Result, error) {
	var all []report.Result
	for _, s := range scenarios() {
		if !b.wants(s.name) {
			continue
		}
		for _, callers := range b.preset.callers {
			entries, err := s.compared(ctx, b, callers)
			if err != nil {
				return all, fmt.Errorf("%s: %w", s.name, err)
			}
			results, err := b.measure(ctx, b.preset, entries)
			all = append(all, results...)
			if err = errors.Join(err, closeEntries(entries)); err != nil {
				return all, fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	rest := []struct {
		name string
		run  func(context.Context) ([]report.Result, error)
	}{
		{"storm", b.stormScenario},
		{"payload", b.payloads},
		{"hand-off", func(ctx context.Context) ([]report.Result, error) {
			return b.handOffs(ctx, contend.Redsync, contend.Redislock, contend.Rueidislock, contend.Advisory, contend.Guarded)
		}},
		{"sick", b.sickTimelines},
	}
	for _, s := range rest {
		if !b.wants(s.name) || (s.name == "sick" && b.cluster.nodes == nil) {
			continue
		}
		results, err := s.run(ctx)
		all = append(all, results...)
		if err != nil {
			return all, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return all, nil
}

// wants reports whether the scenario was named or, when none was, belongs to
// the preset. Mixed work says little that fresh keys and replays do not say.
func (b *bench) wants(scenario string) bool {
	switch {
	case len(b.scenarios) > 0:
		return slices.Contains(b.scenarios, scenario)
	case scenario == "do-mixed":
		return false
	}
	return scenario != "payload" || b.presetName != "quick"
}

// locks makes entries that lock and unlock names of their own. The baseline
// is the first contender.
func (b *bench) locks(ctx context.Context, callers int, contenders ...contend.LockContender) ([]*entry, error) {
	return b.lockEntries(ctx, "lock", callers, contenders, func(e *entry, locker, rival contend.Locker) {
		e.prepare = func(_ context.Context, prefix string) (work.Job, error) {
			return work.LockCycles(locker, rival, prefix), nil
		}
	})
}

// contended makes entries whose callers all want the same name.
func (b *bench) contended(ctx context.Context, callers int, contenders ...contend.LockContender) ([]*entry, error) {
	if callers < 2 {
		return nil, nil
	}
	// The floor has no way to wait.
	var waiting []contend.LockContender
	for _, c := range contenders {
		if c.Name != contend.Raw.Name {
			waiting = append(waiting, c)
		}
	}
	return b.lockEntries(ctx, "contended", callers, waiting, func(e *entry, locker, rival contend.Locker) {
		var fairness func() float64
		e.prepare = func(_ context.Context, prefix string) (work.Job, error) {
			job, shares := work.Contended([]contend.Locker{locker, rival}, prefix, callers)
			fairness = func() float64 { return work.Fairness(shares) }
			return job, nil
		}
		e.figures = func() map[string]float64 { return map[string]float64{"fairness": fairness()} }
	})
}

func (b *bench) lockEntries(ctx context.Context, scenario string, callers int, contenders []contend.LockContender, fill func(e *entry, locker, rival contend.Locker)) ([]*entry, error) {
	var entries []*entry
	for _, c := range contenders {
		locker, rival, err := openTwo(ctx, c, b.cluster.servers)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", c.Name, err), closeEntries(entries))
		}
		e := &entry{
			scenario: scenario, contender: c.Name, options: c.Options, baseline: contenders[0].Name,
			callers: callers, close: func() error { return errors.Join(locker.Close(), rival.Close()) },
		}
		fill(e, locker, rival)
		entries = append(entries, e)
	}
	return entries, nil
}

// openTwo opens two instances, as two processes would have them.
func openTwo(ctx context.Context, c contend.LockContender, s contend.Servers) (locker, rival contend.Locker, err error) {
	if locker, err = c.Open(ctx, s); err != nil {
		return nil, nil, err
	}
	if rival, err = c.Open(ctx, s); err != nil {
		return nil, nil, errors.Join(err, locker.Close())
	}
	return locker, rival, nil
}

// payloads measures fresh keys with larger and larger responses.
func (b *bench) payloads(ctx context.Context) ([]report.Result, error) {
	var all []report.Result
	for _, size := range []int{1 << 10, 16 << 10, 128 << 10} {
		entries, err := b.doEntries(ctx, fmt.Sprintf("do-fresh, %d KiB", size>>10), payloadCallers,
			[]contend.DoContender{contend.NaiveDurable, contend.Engine},
			func(_ context.Context, doer contend.Doer, prefix string) (work.Job, error) {
				return work.Fresh(doer, prefix, size), nil
			})
		if err != nil {
			return all, err
		}
		results, err := b.measure(ctx, b.preset, entries)
		all = append(all, results...)
		if err = errors.Join(err, closeEntries(entries)); err != nil {
			return all, err
		}
	}
	return all, nil
}

// fresh makes entries that run work for new ids.
func (b *bench) fresh(ctx context.Context, callers int, contenders ...contend.DoContender) ([]*entry, error) {
	return b.doEntries(ctx, "do-fresh", callers, contenders, func(_ context.Context, doer contend.Doer, prefix string) (work.Job, error) {
		return work.Fresh(doer, prefix, bodySize), nil
	})
}

// replays makes entries that ask again for ids that were completed before
// their first round.
func (b *bench) replays(ctx context.Context, callers int, contenders ...contend.DoContender) ([]*entry, error) {
	completed := map[contend.Doer]work.Done{}
	return b.doEntries(ctx, "do-replay", callers, contenders, func(ctx context.Context, doer contend.Doer, prefix string) (work.Job, error) {
		if _, ok := completed[doer]; !ok {
			done, err := work.Complete(ctx, doer, prefix, replayIDs, bodySize)
			if err != nil {
				return work.Job{}, err
			}
			completed[doer] = done
		}
		return work.Replays(doer, completed[doer]), nil
	})
}

// mixed makes entries that run work for new ids and, as the share -dup of the
// operations, ask again for completed ones.
func (b *bench) mixed(ctx context.Context, callers int, contenders ...contend.DoContender) ([]*entry, error) {
	return b.doEntries(ctx, "do-mixed", callers, contenders, func(_ context.Context, doer contend.Doer, prefix string) (work.Job, error) {
		return work.Mixed(doer, prefix, callers, bodySize, b.duplicates), nil
	})
}

func (b *bench) doEntries(ctx context.Context, scenario string, callers int, contenders []contend.DoContender, prepare func(context.Context, contend.Doer, string) (work.Job, error)) ([]*entry, error) {
	var entries []*entry
	for _, c := range contenders {
		doer, err := c.Open(ctx, b.cluster.servers)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", c.Name, err), closeEntries(entries))
		}
		entries = append(entries, &entry{
			scenario: scenario, contender: c.Name, options: c.Options, baseline: contenders[0].Name,
			callers: callers, close: doer.Close,
			prepare: func(ctx context.Context, prefix string) (work.Job, error) { return prepare(ctx, doer, prefix) },
		})
	}
	return entries, nil
}
