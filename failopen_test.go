package redfence

import (
	"context"
	"encoding/binary"
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

// TestFailOpenNotBesideACommittedRecord: what any node of the cache still knows
// of the key is as good as the row, when the ledger is gone: a response that
// cannot be given again or was erased, or another request's.
func TestFailOpenNotBesideACommittedRecord(t *testing.T) {
	c := newCluster(t)
	a := c.start(t, func(cfg *Config) { cfg.MaxResponse = 64 })
	b := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 200 * time.Millisecond })
	large := func(context.Context, *Execution) (Response, error) { return Response{Body: make([]byte, 200)}, nil }
	request := Fingerprint{Version: 1, Sum: []byte("one")}
	var work counter
	for id, handle := range map[string]Handler{"buried": large, "done": work.handle} {
		_, err := a.Do(t.Context(), Request{ID: id, Fingerprint: request}, handle)
		must(t, err)
		c.loseFirstCopy(t, Key{ID: id})
	}
	_, err := a.Do(t.Context(), Request{ID: "forgotten", Fingerprint: request}, work.handle)
	must(t, err)
	must(t, a.Forget(t.Context(), Key{ID: "forgotten"}, Operator{Who: "me", Why: "test"}))
	work.want(t, 2)
	b.pg.Cut()
	_, err = b.Do(t.Context(), Request{ID: "forgotten", Fingerprint: request, Policy: openPolicy()}, work.handle)
	wantErr(t, err, ErrNotReplayable)
	_, err = b.Do(t.Context(), Request{ID: "buried", Fingerprint: request, Policy: openPolicy()}, work.handle)
	wantErr(t, err, ErrNotReplayable)
	request.Sum = []byte("another")
	_, err = b.Do(t.Context(), Request{ID: "done", Fingerprint: request, Policy: openPolicy()}, work.handle)
	wantErr(t, err, ErrMismatch)
	work.want(t, 2)
	b.pg.Heal()
}

// loseFirstCopy waits until a majority of the nodes has the key's record, and
// takes it away from the one that a look-up asks first.
func (c *cluster) loseFirstCopy(t *testing.T, key Key) {
	t.Helper()
	digest := key.in(doNamespace).Digest()
	record := "rf1:{" + digest.String() + "}:c"
	eventually(t, "a majority has the record", func() bool {
		copies := int64(0)
		for _, n := range c.nodes {
			copies += n.Client().Exists(t.Context(), record).Val()
		}
		return copies == int64(len(c.nodes)/2+1)
	})
	first := binary.BigEndian.Uint32(digest[:]) % uint32(len(c.nodes))
	must(t, c.nodes[first].Client().Del(t.Context(), record).Err())
}
