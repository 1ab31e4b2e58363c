package measure

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// An Op is one operation of one caller; n counts that caller's operations
// from 0, warm-up included.
type Op func(ctx context.Context, caller, n int) error

// A Load says how an operation is driven.
type Load struct {
	// Callers run at the same time.
	Callers int
	// Warm is how long they run before anything counts.
	Warm time.Duration
	// For is how long they are measured.
	For time.Duration
	// Rate is the number of operations per second that are due, spread evenly
	// over the callers. A caller that is late catches up, and its latencies
	// count from when the operation was due. 0: closed loop, each caller
	// starts the next operation when the last one has ended.
	Rate float64
	// Timeline asks for what ended in each tenth of a second.
	Timeline bool
	// Live, if set, is told of each operation, for a progress display.
	Live *Live
}

// grace is how long operations may take beyond the end of the round.
const grace = 30 * time.Second

// Run drives op and returns what was measured. It ends when every operation
// that it started has ended; ctx ends it early, and an operation that fails
// from then on does not count. The context of an operation ends half a minute
// after the round.
func Run(ctx context.Context, load Load, op Op) Sample {
	ticks := 0
	if load.Timeline {
		ticks = int(load.For / TickLength)
	}
	r := &run{load: load, op: op, shards: newShards(ticks), stopped: ctx.Done()}
	r.begin = time.Now().Add(load.Warm)
	r.end = r.begin.Add(load.For)
	ctx, cancel := context.WithDeadline(ctx, r.end.Add(grace))
	defer cancel()
	var before atomic.Pointer[Usage]
	timer := time.AfterFunc(load.Warm, func() { usage := readUsage(); before.Store(&usage) })
	defer timer.Stop()
	var callers sync.WaitGroup
	for i := range load.Callers {
		callers.Go(func() { r.call(ctx, i) })
	}
	callers.Wait()
	sample := r.shards.sum()
	sample.Callers = load.Callers
	sample.Seconds = max(0, minTime(time.Now(), r.end).Sub(r.begin).Seconds())
	if usage := before.Load(); usage != nil {
		sample.Usage = readUsage().since(*usage)
	}
	return sample
}

// run is one Run.
type run struct {
	load       Load
	op         Op
	begin, end time.Time
	shards     *shards
	stopped    <-chan struct{}
}

func (r *run) call(ctx context.Context, caller int) {
	due := r.schedule(caller)
	for n := 0; ; n++ {
		start := due(n)
		if wait := time.Until(start); wait > 0 && !sleep(ctx, wait) {
			return
		}
		if ctx.Err() != nil || !time.Now().Before(r.end) {
			return
		}
		err := r.op(ctx, caller, n)
		if err != nil && r.early() {
			return
		}
		r.record(caller, start, time.Now(), err)
	}
}

// early reports whether somebody ended the run before its time.
func (r *run) early() bool {
	select {
	case <-r.stopped:
		return true
	default:
		return false
	}
}

// schedule returns when each operation of the caller is due.
func (r *run) schedule(caller int) func(n int) time.Time {
	if r.load.Rate <= 0 {
		return func(int) time.Time { return time.Now() }
	}
	step := time.Duration(float64(time.Second) / r.load.Rate)
	first := r.begin.Add(-r.load.Warm).Add(time.Duration(caller) * step)
	return func(n int) time.Time { return first.Add(time.Duration(n*r.load.Callers) * step) }
}

// record counts an operation by the part of it that lies within the measured
// time: one that spans the edge is a fraction, so that slow operations are
// neither lost nor counted for time that was not measured.
func (r *run) record(caller int, start, end time.Time, err error) {
	r.load.Live.add(end.Sub(start), err)
	r.shards.tick(caller, end.Sub(r.begin), err)
	took := end.Sub(start)
	within := minTime(end, r.end).Sub(maxTime(start, r.begin))
	if within <= 0 {
		return
	}
	share := 1.0
	if within < took {
		share = within.Seconds() / took.Seconds()
	}
	r.shards.record(caller, share, took, err)
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Live counts operations while they run. Its zero value is ready; a nil one
// counts nothing.
type Live struct {
	ops, failed, slowest atomic.Int64
}

func (l *Live) add(took time.Duration, err error) {
	if l == nil {
		return
	}
	l.ops.Add(1)
	if err != nil {
		l.failed.Add(1)
	}
	for old := l.slowest.Load(); int64(took) > old; old = l.slowest.Load() {
		if l.slowest.CompareAndSwap(old, int64(took)) {
			return
		}
	}
}

// Take returns the operations, failures and the longest latency since the
// last Take.
func (l *Live) Take() (ops, failed int64, slowest time.Duration) {
	return l.ops.Swap(0), l.failed.Swap(0), time.Duration(l.slowest.Swap(0))
}
