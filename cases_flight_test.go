package redfence

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redfence/redfence/fallback"
)

func TestI51LeaderVanishes(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	ctx, vanish := context.WithCancel(t.Context())
	reached, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	in.ledger.hook(func(f *faultyLedger) {
		f.before = func(method string) error {
			if method == "claim" {
				once.Do(func() { close(reached); <-resume })
			}
			return nil
		}
	})
	var work counter
	var group sync.WaitGroup
	group.Go(func() {
		_, err := in.Do(ctx, Request{ID: "k"}, work.handle)
		wantErr(t, err, context.Canceled)
	})
	<-reached
	for range 20 {
		group.Go(func() {
			res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
			if err != nil || string(res.Response.Body) != "run 1" {
				t.Errorf("follower: %q %v", res.Response.Body, err)
			}
		})
	}
	vanish()
	close(resume)
	group.Wait()
	work.want(t, 1)
}

func TestI51NestedCallOfTheSameKey(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	res, err := in.Do(t.Context(), Request{ID: "outer"}, func(ctx context.Context, _ *Execution) (Response, error) {
		_, err := in.Do(ctx, Request{ID: "outer"}, new(counter).handle)
		wantErr(t, err, ErrInProgress)
		inner, err := in.Do(ctx, Request{ID: "inner"}, func(ctx context.Context, _ *Execution) (Response, error) {
			_, err := in.Do(ctx, Request{ID: "outer"}, new(counter).handle)
			wantErr(t, err, ErrInProgress)
			return Response{Body: []byte("inner")}, nil
		})
		return inner.Response, err
	})
	wantResult(t, res, err, Executed, "inner")
}

func TestI57NotDurableTakesNoFollowers(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 200 * time.Millisecond })
	in.ledger.hook(func(f *faultyLedger) {
		f.complete = func(fallback.Record, error) (fallback.Record, error) { return fallback.Record{}, errCut }
	})
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	must(t, err)
	if res.Durable {
		t.Fatal("durable although no completion was confirmed")
	}
	// The row is completed although no reply came: the follower must have read it.
	res, err = in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	in.ledger.hook(func(f *faultyLedger) { f.complete = nil })
}

// The completion has committed and its reply is on the way: another instance
// already replays. The owner's own process must not answer "in progress".
func TestInProgressIsNotAnsweredAfterTheCommit(t *testing.T) {
	c := newCluster(t)
	owner, other := c.start(t, nil), c.start(t, nil)
	committed, deliver := make(chan struct{}), make(chan struct{})
	owner.ledger.hook(func(f *faultyLedger) {
		f.complete = func(row fallback.Record, err error) (fallback.Record, error) {
			close(committed)
			<-deliver
			return row, err
		}
	})
	var work counter
	var group sync.WaitGroup
	group.Go(func() {
		res, err := owner.Do(t.Context(), Request{ID: "k"}, work.handle)
		wantResult(t, res, err, Executed, "run 1")
	})
	<-committed
	for _, in := range []*instance{other, owner} {
		res, err := in.Do(t.Context(), Request{ID: "k", Policy: noWait(testPolicy())}, work.handle)
		wantResult(t, res, err, Replayed, "run 1")
	}
	close(deliver)
	group.Wait()
	work.want(t, 1)
}
