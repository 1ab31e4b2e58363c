package redfence

import (
	"context"
	"errors"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/claim"
	"github.com/redfence/redfence/internal/failpoint"
)

// A watchdog renews the lease of a claim every third of it, and tells when the
// owner's own deadline has passed: by a timer that waits for no renewal (R5).
// Its fields are guarded by the run's mutex.
type watchdog struct {
	renewal, deadline *time.Timer
	stopped           bool
}

func (w *watchdog) start(r *run) {
	if r.renews {
		w.renewal = time.AfterFunc(r.renewEvery(), r.renew)
	}
	w.deadline = time.AfterFunc(time.Until(r.state.NextTick()), r.tick)
}

// stop ends the renewals; a timer that has fired already finds it out.
func (w *watchdog) stop() {
	if w.renewal != nil {
		w.stopped = true
		w.renewal.Stop()
	}
}

// end stops the timer of the deadline as well: the claim is over.
func (w *watchdog) end() {
	if w.deadline != nil {
		w.deadline.Stop()
	}
}

func (r *run) renewEvery() time.Duration { return r.req.Policy.Lease / 3 }

// tick tells the claim what time it is, and sets the timer for the next time
// that matters.
func (r *run) tick() {
	r.step(claim.Event{Kind: claim.Tick, Now: time.Now()})
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.state.NextTick(); !at.IsZero() && r.state.Phase != claim.Over {
		r.watch.deadline.Reset(time.Until(at))
	}
}

// renew renews the lease, again and again. What cannot be renewed now is tried
// again soon; only the ledger's refusal is final.
func (r *run) renew() {
	if failpoint.Hit(context.Background(), "renewal-tick") != nil {
		return
	}
	again := r.renewEvery()
	ctx, stop := context.WithTimeout(context.Background(), again)
	defer stop()
	switch err := r.renewNow(ctx); {
	case errors.Is(err, fallback.ErrRefused):
		return
	case err != nil:
		again /= 3
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.watch.stopped {
		r.watch.renewal.Reset(again)
	}
}

// renewNow renews the lease once.
func (r *run) renewNow(ctx context.Context) error {
	r.mu.Lock()
	s, stopped := r.state, r.watch.stopped
	r.mu.Unlock()
	if stopped {
		return fallback.ErrRefused
	}
	g, err := r.engine.ledger.Renew(ctx, r.ref(s), s.Phase == claim.Late)
	switch {
	case err == nil:
		r.step(claim.Event{Kind: claim.Renewed, Grant: stepGrant(&g)})
	case errors.Is(err, fallback.ErrRefused):
		r.step(claim.Event{Kind: claim.RenewRefused})
	}
	return err
}
