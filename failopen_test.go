package redfence

import (
	"testing"
	"time"
)

func openPolicy() *Policy {
	p := testPolicy()
	p.FailOpen = true
	return &p
}

// TestFailOpen: with the ledger gone, the route's explicit choice runs the
// handler unprotected. Such a run is marked, and nothing of it is kept.
func TestFailOpen(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 200 * time.Millisecond })
	in.pg.Cut()
	var work counter
	_, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantErr(t, err, ErrLedgerUnavailable)
	work.want(t, 0)
	for n := int64(1); n <= 2; n++ {
		res, err := in.Do(t.Context(), Request{ID: "k", Policy: openPolicy()}, work.handle)
		must(t, err)
		if res.Outcome != Unrecorded || res.Durable || res.Fence != 0 {
			t.Fatalf("an unprotected run is %+v", res)
		}
		work.want(t, n)
	}
	in.pg.Heal()
	eventually(t, "the key is new to the ledger", func() bool {
		res, err := in.Do(t.Context(), Request{ID: "k", Policy: openPolicy()}, work.handle)
		return err == nil && res.Outcome == Executed && res.Durable
	})
	work.want(t, 3)
}

// TestFailOpenNeedsALedgerThatIsGone: not while a claim of ours may be in
// force, and not when a response can be had.
func TestFailOpenNeedsALedgerThatIsGone(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 200 * time.Millisecond })
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "done"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	lost := lostReply(time.Now().Add(time.Second))
	in.ledger.hook(func(f *faultyLedger) { f.claim = lost })
	in.pg.Cut()
	_, err = in.Do(t.Context(), Request{ID: "lost", Policy: openPolicy()}, work.handle)
	wantErr(t, err, ErrLedgerUnavailable)
	work.want(t, 1)
	res, err = in.Do(t.Context(), Request{ID: "done", Policy: openPolicy()}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	work.want(t, 1)
	in.ledger.hook(func(f *faultyLedger) { f.claim = nil })
	in.pg.Heal()
}
