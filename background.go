package redfence

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redfence/redfence/internal/claim"
	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

// background finishes what no caller waits for: completions that the ledger
// has not confirmed (R4) and claims whose verdict was lost (R1). It is
// bounded, and Close drains it.
type background struct {
	engine *Engine
	ctx    context.Context // ends when Close gives up
	stop   context.CancelFunc
	work   work
	queued atomic.Int64
}

func newBackground(e *Engine) *background {
	b := &background{engine: e}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// finish takes over a run and its next call.
func (b *background) finish(r *run, act claim.Action) {
	if !b.work.enter() {
		b.abandon(r)
		return
	}
	if b.queued.Add(1) > int64(b.engine.cfg.MaxCompleting) {
		b.queued.Add(-1)
		b.work.leave()
		b.abandon(r)
		return
	}
	go func() {
		defer b.work.leave()
		defer b.queued.Add(-1)
		b.pursue(r, act)
	}()
}

// pursue goes on until the ledger has confirmed or refused.
func (b *background) pursue(r *run, act claim.Action) {
	since := time.Now()
	for b.ctx.Err() == nil {
		switch {
		case act.Has(claim.Reread):
			act = r.step(r.reread(b.ctx))
		case act.Has(claim.SendOutcome):
			act = r.step(r.settle(b.ctx))
		default:
			b.done(r, act, since)
			return
		}
	}
	b.abandon(r)
}

func (b *background) done(r *run, act claim.Action, since time.Time) {
	state := r.snapshot()
	result := state.Outcome.String()
	switch {
	case act.Has(claim.Put):
		b.engine.put(r.call, &r.row)
	case state.Outcome == claim.Complete:
		result = "refused"
	}
	b.engine.cfg.Observer.Observe(observe.LateCompletion{Key: r.call.ref(), Fence: state.Grant.Fence, Result: result, After: time.Since(since)})
}

// abandon leaves the row to its lease: the process does not go on trying.
func (b *background) abandon(r *run) {
	r.step(claim.Event{Kind: claim.Closing})
	b.engine.cfg.Observer.Observe(observe.LateCompletion{Key: r.call.ref(), Fence: r.snapshot().Grant.Fence, Result: "abandoned"})
}

// unlock gives the processing lock back. Nobody waits for it, since the ledger
// arbitrates; what stays behind lapses with its TTL.
func (e *Engine) unlock(lease lock.Lease) {
	if lease != nil && failpoint.Hit(e.background.ctx, "before-unlock") == nil {
		lock.ReleaseLater(lease)
	}
}

// work counts what is under way and can be waited for. Once closed it lets
// nothing in.
type work struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when n falls to 0 after close
}

func (w *work) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.n++
	return true
}

func (w *work) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n--; w.n == 0 && w.closed {
		close(w.idle)
	}
}

// close lets nothing in any more and returns a channel that is closed when
// all has left.
func (w *work) close() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.idle = make(chan struct{})
		if w.n == 0 {
			close(w.idle)
		}
	}
	return w.idle
}

// drain closes w and waits until all has left or ctx ends.
func (w *work) drain(ctx context.Context, what string) error {
	select {
	case <-w.close():
		return nil
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		return fmt.Errorf("%d %s still under way: %w", w.n, what, context.Cause(ctx))
	}
}

// slots bound what is in flight.
type slots struct {
	n    atomic.Int64
	most int64
}

func (s *slots) take() bool {
	if s.n.Add(1) > s.most {
		s.n.Add(-1)
		return false
	}
	return true
}

func (s *slots) give() { s.n.Add(-1) }
