package redfence

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// makeEager makes look-ups that find nothing.
func makeEager(t *testing.T, e *Engine) {
	t.Helper()
	for i := range eagerAfter {
		_, err := e.Do(t.Context(), Request{ID: fmt.Sprint("new ", i)}, new(counter).handle)
		must(t, err)
	}
	if !e.eager.yes() {
		t.Fatalf("%d look-ups found nothing, and the next one is not eager", eagerAfter)
	}
}

// TestEagerLockIsGivenBack: an eager look-up that finds a response after all
// replays it, and gives back the lock that it has taken for nothing.
func TestEagerLockIsGivenBack(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	noNear := func(cfg *Config) { cfg.NearCache = -1 }
	other, in := c.start(t, noNear), c.start(t, noNear)
	var work counter
	_, err := other.Do(t.Context(), Request{ID: "k"}, work.handle)
	must(t, err)
	makeEager(t, in.Engine)
	res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	work.want(t, 1)
	if in.eager.yes() {
		t.Error("the look-up after a hit is eager")
	}
	name := Key{ID: "k"}.in(doNamespace).Digest().String()
	eventually(t, "the lock is free", func() bool {
		lease, err := other.locks.TryAcquire(t.Context(), name)
		return err == nil && lease.Release(t.Context()) == nil
	})
}

// TestEagerLookupTravelsWithTheLock: one round trip to the nodes instead of two.
func TestEagerLookupTravelsWithTheLock(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	in := c.start(t, nil)
	var together atomic.Int32
	in.redis.OnWrite(func(b []byte) {
		if bytes.Contains(b, []byte("getrange")) && bytes.Contains(b, []byte("nx")) {
			together.Add(1)
		}
	})
	run := func(id string) {
		_, err := in.Do(t.Context(), Request{ID: id}, func(context.Context, *Execution) (Response, error) { return Response{}, nil })
		must(t, err)
		time.Sleep(10 * time.Millisecond) // until the nodes have nothing to do
	}
	for i := range eagerAfter {
		run(fmt.Sprint("first ", i))
	}
	if n := together.Load(); n != 0 {
		t.Errorf("%d look-ups went together with a lock before there was a reason", n)
	}
	for i := range 10 {
		run(fmt.Sprint("then ", i))
	}
	if n := together.Load(); n < 5 {
		t.Errorf("%d of 10 eager look-ups went together with the lock", n)
	}
}
