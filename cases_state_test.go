package redfence

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redfence/redfence/fallback"
)

// impatient is a policy whose unknown keys may be recovered soon.
func impatient(p Policy) Policy {
	p.MaxProcessing = p.Lease
	return p
}

func TestI12RecoveryHook(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	policy := impatient(testPolicy())
	dead := c.child(t, childSpec{ID: "k", Policy: policy})
	if line := dead.line(); !strings.HasPrefix(line, "started") {
		t.Fatalf("child: %q", line)
	}
	dead.kill()
	var asked, inside, most atomic.Int64
	var told UnknownKey
	policy.Recover = func(ctx context.Context, u UnknownKey) (Recovery, error) {
		asked.Add(1)
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		told = u
		return Recovery{Response: &Response{Status: 201, Body: []byte("found")}}, sleep(ctx, 50*time.Millisecond)
	}
	var work counter
	eventually(t, "the hook's decision", func() bool {
		var group sync.WaitGroup
		var found atomic.Int64
		for range 10 {
			group.Go(func() {
				res, err := in.Do(t.Context(), Request{ID: "k", Policy: &policy}, work.handle)
				if err == nil && string(res.Response.Body) == "found" && res.Response.Status == 201 {
					found.Add(1)
				} else {
					wantErr(t, err, ErrUnknownOutcome)
				}
			})
		}
		group.Wait()
		return found.Load() == 10
	})
	if asked.Load() != 1 || most.Load() != 1 {
		t.Errorf("asked %d times, %d at once", asked.Load(), most.Load())
	}
	if told.Key != (Key{ID: "k"}) || told.Fence != 1 || told.Owner == "" || told.ClaimedAt.IsZero() {
		t.Errorf("the hook was told %+v", told)
	}
	work.want(t, 0)
}

func TestRecoveryHookAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer Recovery
		err    error
		runs   int64
	}{
		"an error":              {Recovery{}, errors.New("the provider is down"), 0},
		"nothing":               {Recovery{}, nil, 0},
		"both":                  {Recovery{Release: true, Response: &Response{}}, nil, 0},
		"the effect is missing": {Recovery{Release: true}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			engine := newMemoryEngine(t, nil)
			policy := impatient(testPolicy())
			_, err := engine.Do(t.Context(), Request{ID: "k", Policy: &policy}, func(context.Context, *Execution) (Response, error) {
				return Response{}, errors.New("who knows")
			})
			if err == nil {
				t.Fatal("no error")
			}
			asked := 0
			policy.Recover = func(context.Context, UnknownKey) (Recovery, error) { asked++; return tt.answer, tt.err }
			var work counter
			eventually(t, "the hook is asked", func() bool {
				_, err = engine.Do(t.Context(), Request{ID: "k", Policy: &policy}, work.handle)
				return asked > 0
			})
			if tt.runs == 0 {
				wantErr(t, err, ErrUnknownOutcome)
			} else {
				must(t, err)
			}
			work.want(t, tt.runs)
		})
	}
}

func TestUnreplayableIsNeverRunAgain(t *testing.T) {
	for _, policy := range []Policy{testPolicy(), retryPolicy()} {
		t.Run(policy.OnAbandoned.String(), func(t *testing.T) {
			c := newCluster(t)
			in := c.start(t, nil)
			res, err := in.Do(t.Context(), Request{ID: "k", Policy: &policy}, func(ctx context.Context, ex *Execution) (Response, error) {
				must(t, ex.Unreplayable(ctx, 200, "it streams"))
				rec, err := in.Inspect(ctx, ex.Key())
				must(t, err)
				if rec.State != fallback.Streaming {
					t.Errorf("state %v while it streams", rec.State)
				}
				_, err = in.Do(t.Context(), Request{ID: "k", Policy: noWait(policy)}, new(counter).handle)
				wantErr(t, err, ErrInProgress)
				return Response{Status: 200}, nil
			})
			must(t, err)
			if res.Outcome != Executed || res.Durable {
				t.Errorf("%v, durable %v", res.Outcome, res.Durable)
			}
			var work counter
			_, err = in.Do(t.Context(), Request{ID: "k", Policy: &policy}, work.handle)
			wantErr(t, err, ErrNotReplayable)
			if !strings.Contains(err.Error(), "it streams") {
				t.Errorf("%v does not say why", err)
			}
			work.want(t, 0)
		})
	}
}

func TestI50KilledInMidStream(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.Policy = retryPolicy() })
	dead := c.child(t, childSpec{ID: "k", Policy: retryPolicy(), Stream: true})
	if line := dead.line(); !strings.HasPrefix(line, "started") {
		t.Fatalf("child: %q", line)
	}
	if line := dead.line(); line != "streams" {
		t.Fatalf("child: %q", line)
	}
	dead.kill()
	var work counter
	_, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantErr(t, err, ErrNotReplayable)
	work.want(t, 0)
}

func TestStreamThatCannotBeRecorded(t *testing.T) {
	for _, policy := range []Policy{testPolicy(), retryPolicy()} {
		t.Run(policy.OnAbandoned.String(), func(t *testing.T) {
			c := newCluster(t)
			in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = testLease })
			_, _ = in.Do(t.Context(), Request{ID: "k", Policy: &policy}, func(ctx context.Context, ex *Execution) (Response, error) {
				in.pg.Cut()
				err := ex.Unreplayable(ctx, 200, "it streams")
				in.pg.Heal()
				if policy.OnAbandoned == Hold {
					must(t, err) // nobody can take it over: it streams all the same
				} else {
					wantErr(t, err, ErrLedgerUnavailable)
				}
				return Response{}, err
			})
			var work counter
			var res Result
			var err error
			eventually(t, "the ledger answers", func() bool {
				res, err = in.Do(t.Context(), Request{ID: "k", Policy: &policy}, work.handle)
				return !errors.Is(err, ErrLedgerUnavailable)
			})
			if policy.OnAbandoned == Hold {
				wantErr(t, err, ErrNotReplayable)
				work.want(t, 0)
			} else {
				wantResult(t, res, err, Executed, "run 1") // nothing had left
			}
		})
	}
}

func TestI53Forget(t *testing.T) {
	c := newCluster(t)
	far := func(cfg *Config) { cfg.NearCache = -1 } // package cache tests the 30 s of the near cache
	a, b := c.start(t, far), c.start(t, far)
	var work counter
	res, err := a.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	res, err = b.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	old, err := a.Inspect(t.Context(), Key{ID: "k"})
	must(t, err)

	must(t, c.nodes[2].Pause())
	err = a.Forget(t.Context(), Key{ID: "k"}, Operator{Who: "test", Why: "erasure request"})
	wantErr(t, err, ErrNotErased)
	if !strings.Contains(err.Error(), c.nodes[2].Addr()) {
		t.Errorf("%v does not list %s", err, c.nodes[2].Addr())
	}
	must(t, c.nodes[2].Resume())
	eventually(t, "every node has forgotten", func() bool { return a.Forget(t.Context(), Key{ID: "k"}) == nil })

	call, err := b.newCall(t.Context(), Request{ID: "k"}, Handler(work.handle))
	must(t, err)
	b.put(call, &old.Record) // a put that comes late
	row, err := a.Inspect(t.Context(), Key{ID: "k"})
	must(t, err)
	if row.State != fallback.Tombstone || len(row.Response) != 0 || row.Fence <= old.Fence {
		t.Errorf("row %v, %d bytes, fence %d after %d", row.State, len(row.Response), row.Fence, old.Fence)
	}
	eventually(t, "duplicates get forgotten", func() bool {
		for _, in := range []*instance{a, b} {
			if _, err := in.Do(t.Context(), Request{ID: "k"}, work.handle); !errors.Is(err, ErrNotReplayable) {
				return false
			}
		}
		return true
	})
	work.want(t, 1)
	wantErr(t, a.Forget(t.Context(), Key{ID: "never seen"}), ErrInvalid)
}
