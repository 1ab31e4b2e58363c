package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/cluster"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/nemesis"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/chaos/internal/report"
	"github.com/redfence/redfence/chaos/internal/workload"
	"github.com/redfence/redfence/internal/servers"
)

// lease of the claims: short enough for a stopped instance to lose it, long
// enough for a busy machine to renew it.
const lease = 2 * time.Second

// The load counts as warm after so many answers, which must come within the
// limit.
const (
	warmAfter   = 100
	warmUpLimit = 30 * time.Second
)

// settleLimit bounds the probing after the last fault; the check of liveness
// has a bound of its own.
const settleLimit = 20 * time.Second

// calmAfter is how long the load goes on after the last fault of a schedule
// that was cut down.
const calmAfter = 2 * time.Second

// controller does one run.
type controller struct {
	setup   history.Setup
	dir     string
	rate    int    // fresh keys, and late duplicates, per second
	bin     string // folder of the instance binary, which restarts need
	began   time.Time
	cluster cluster.Cluster
	record  *recorder.Recorder
	load    *workload.Load
	steps   []nemesis.Step

	mu     sync.Mutex // guards faults
	faults []history.Fault
}

func (c *controller) clock() time.Duration { return time.Since(c.began) }

// run does a run and judges it. The folder keeps what the judgement rests on.
func run(ctx context.Context, setup history.Setup, rate int, dir string, progress *progress) (report.Report, error) {
	c := &controller{setup: setup, rate: rate, dir: dir, began: time.Now()}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return report.Report{}, fmt.Errorf("chaos: %w", err)
	}
	h, err := c.history(ctx, progress)
	if err != nil {
		return report.Report{}, err
	}
	if err := h.Save(dir); err != nil {
		return report.Report{}, fmt.Errorf("chaos: save the history: %w", err)
	}
	return judged(h, dir)
}

// judged judges a history and leaves the report beside it.
func judged(h *history.History, dir string) (report.Report, error) {
	r := report.New(h, check.Judge(h), dir)
	return r, r.Save()
}

// history starts everything, runs the schedule, and ends everything.
func (c *controller) history(ctx context.Context, progress *progress) (h *history.History, err error) {
	c.record, err = recorder.Listen(cmp.Or(c.setup.Recorder, "127.0.0.1:0"), filepath.Join(c.dir, history.EffectsFile), c.clock)
	if err != nil {
		return nil, fmt.Errorf("chaos: %w (give another folder with -out)", err)
	}
	defer func() { err = errors.Join(err, c.record.Close()) }()
	if c.bin, err = os.MkdirTemp("", "redfence-chaos-"); err != nil {
		return nil, fmt.Errorf("chaos: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.bin)) }()
	c.announce(progress)
	if c.steps, err = c.schedule(); err != nil {
		return nil, err
	}
	if c.cluster, err = c.start(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.cluster.Close()) }()
	c.load = workload.New(workload.Options{
		Instances: c.cluster.Instances(), Seed: c.setup.Seed, Prefix: c.prefix(), Clock: c.clock,
		KeysPerSecond: c.rate, LatePerSecond: c.rate, Lease: lease, Transfers: c.cluster.Transfers(), Lockers: c.cluster.Lockers(),
	})
	defer c.load.Close()
	c.began = time.Now()
	stop := progress.follow(c)
	err = c.perform(ctx)
	stop()
	if err != nil {
		return nil, err
	}
	return c.collect(ctx)
}

// start makes the cluster that the set-up asks for.
func (c *controller) start(ctx context.Context) (cluster.Cluster, error) {
	if c.setup.External() {
		return c.startTarget(ctx)
	}
	options := cluster.Options{
		Nodes: c.setup.Nodes, Instances: c.setup.Instances, Recorder: c.record.URL(), Dir: c.dir, Mutant: c.setup.Mutant,
		Engine: c.setup.Engine, Policy: c.setup.Policy, Lease: lease, SmallDisk: c.disk(), Unbiased: c.setup.Preset == "cycles",
	}
	if c.setup.Rehearsal {
		return cluster.StartRehearsal(ctx, options)
	}
	binary, err := cluster.Build(ctx, c.bin)
	if err != nil {
		return nil, err
	}
	return cluster.StartLocal(ctx, binary, options)
}

// schedule plans the faults.
func (c *controller) schedule() ([]nemesis.Step, error) { return plan(c.setup).Steps() }

func plan(s history.Setup) nemesis.Plan {
	return nemesis.Plan{
		Preset: s.Preset, Only: s.Only, Without: s.Without, Keep: s.Keep, Seed: s.Seed, Duration: s.Duration,
		Topology: nemesis.Topology{Nodes: s.Nodes, Instances: s.Instances},
	}
}

// diskPerKey is more than a key takes in the ledger until rows are vacuumed.
const diskPerKey = 8 << 10

// disk is how many megabytes the ledger's disk must have, so that nothing but
// a fault fills it; 0: the schedule fills none.
func (c *controller) disk() int {
	if !slices.ContainsFunc(c.steps, func(s nemesis.Step) bool { return s.Kind == history.FillDisk }) {
		return 0
	}
	keys := int(c.setup.Duration.Seconds()) * c.rate
	return 128 + keys*diskPerKey>>20
}

// perform runs load and schedule side by side, lets everything settle, and
// asks for every acknowledged key once more.
func (c *controller) perform(ctx context.Context) error {
	loading, stop := context.WithCancel(ctx)
	defer stop()
	var group sync.WaitGroup
	group.Go(func() { c.load.Run(loading) })
	err := c.disturb(ctx)
	stop()
	group.Wait()
	if err != nil {
		return err
	}
	c.load.Final(ctx)
	return errors.Join(ctx.Err(), c.cluster.Health())
}

// disturb lets the load warm up, does the schedule, and gives the cluster the
// rest of the duration, and more if it needs it, to be as before.
func (c *controller) disturb(ctx context.Context) error {
	if err := c.warmUp(ctx); err != nil {
		return err
	}
	began := c.clock()
	if err := nemesis.Run(ctx, c.cluster, c.steps, c.clock, c.tell); err != nil {
		return err
	}
	c.settle(ctx)
	if len(c.setup.Keep) > 0 { // a shorter schedule makes a shorter run
		return wait(ctx, calmAfter)
	}
	return wait(ctx, began+c.setup.Duration-c.clock())
}

// warmUp waits until connections are made and caches filled, so that the first
// fault meets a cluster at work.
func (c *controller) warmUp(ctx context.Context) error {
	for end := c.clock() + warmUpLimit; c.clock() < end; {
		if _, _, answered := c.load.Counts(); answered >= warmAfter {
			return nil
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("chaos: fewer than %d requests were answered in %v before any fault; see the logs of the instances, here in %s", warmAfter, warmUpLimit, c.dir)
}

// settle probes each instance until it serves by the primary route again. The
// load goes on meanwhile.
func (c *controller) settle(ctx context.Context) {
	end := c.clock() + settleLimit
	var group sync.WaitGroup
	for i := range c.setup.Instances {
		group.Go(func() {
			for c.clock() < end && ctx.Err() == nil {
				if op := c.load.Probe(ctx, i); op.OK() && (c.setup.External() || c.record.StartedOn(op.Key) == "primary") {
					return
				}
				_ = wait(ctx, 50*time.Millisecond)
			}
		})
	}
	group.Wait()
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *controller) tell(f history.Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, f)
}

// collect puts the history together.
func (c *controller) collect(ctx context.Context) (*history.History, error) {
	h := &history.History{Setup: c.setup, Ops: c.load.Ops(), Effects: c.record.Effects(), Faults: c.faults}
	for _, f := range c.faults {
		h.Healed = max(h.Healed, f.Done)
	}
	seen := map[string]bool{}
	var keys []string
	for _, op := range h.Ops {
		if !seen[op.Key] {
			seen[op.Key] = true
			keys = append(keys, op.Key)
		}
	}
	var errs [3]error
	h.Locks, errs[0] = c.locksLeft(ctx)
	h.Rows, errs[1] = c.cluster.Rows(ctx, keys)
	h.Accounts, errs[2] = c.cluster.Accounts(ctx)
	return h, errors.Join(errs[:]...)
}

// lockLimit is longer than any lock lives without its holder.
const lockLimit = 15 * time.Second

// locksLeft waits until no lock is left, and returns those that do not go.
func (c *controller) locksLeft(ctx context.Context) (left []string, err error) {
	for end := c.clock() + lockLimit; c.clock() < end; {
		if left, err = c.cluster.Locks(ctx); err != nil || len(left) == 0 {
			return left, err
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// missingServers says why only a rehearsal is possible; nil: it is not.
func missingServers() error {
	if err := servers.Available(); errors.Is(err, servers.ErrNotInstalled) {
		return err
	}
	return nil
}
