package locktest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redfence/redfence/lock"
)

func testWaits(t *testing.T, h Harness) {
	a, b, ctx, n := h.Open(t), h.Open(t), patient(t), name(t)
	for _, waiter := range []lock.Locker{a, b} {
		lease, err := a.TryAcquire(ctx, n)
		acquired(t, lease, err)
		got := make(chan time.Time, 1)
		var wait sync.WaitGroup
		wait.Go(func() {
			rival, err := waiter.Acquire(ctx, n)
			got <- time.Now()
			if err != nil {
				t.Errorf("the waiter: %v", err)
				return
			}
			if err := rival.Release(ctx); err != nil {
				t.Errorf("the waiter's release: %v", err)
			}
		})
		select {
		case <-got:
			t.Fatal("two holders")
		case <-time.After(50 * time.Millisecond):
		}
		released := time.Now()
		release(t, lease)
		if took := (<-got).Sub(released); took > h.HandOff {
			t.Errorf("hand-off took %v, want at most %v", took, h.HandOff)
		}
		wait.Wait()
		eventually(t, func() error { return tryOnce(ctx, a, n) })
	}
}

// eventually polls until check succeeds.
func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func tryOnce(ctx context.Context, locker lock.Locker, n string) error {
	lease, err := locker.TryAcquire(ctx, n)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

func testWaitEnds(t *testing.T, h Harness) {
	a, b, n := h.Open(t), h.Open(t), name(t)
	lease, err := a.TryAcquire(patient(t), n)
	acquired(t, lease, err)
	for _, locker := range []lock.Locker{a, b} {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		start := time.Now()
		_, err := locker.Acquire(ctx, n)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, lock.ErrNotAcquired) {
			t.Errorf("%v; want DeadlineExceeded and ErrNotAcquired", err)
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("the wait ended after %v", took)
		}
	}
	release(t, lease)
	// What the waiters had on its way may hold the lock for a moment more.
	eventually(t, func() error { return tryOnce(patient(t), b, n) })
}

func testManyWaiters(t *testing.T, h Harness) {
	lockers, ctx, n := []lock.Locker{h.Open(t), h.Open(t)}, patient(t), name(t)
	var inside atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			lease, err := lockers[i%2].Acquire(ctx, n)
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two holders")
			}
			inside.Add(-1)
			if err := lease.Release(ctx); err != nil {
				t.Errorf("waiter %d: release: %v", i, err)
			}
		})
	}
	all.Wait()
}

func testAll(t *testing.T, h Harness) {
	a, b, ctx := h.Open(t), h.Open(t), patient(t)
	first, second, third := name(t), name(t), name(t)
	lease, err := lock.TryAcquireAll(ctx, a, []string{second, first, second})
	acquired(t, lease, err)
	for _, n := range []string{first, second} {
		if _, err := b.TryAcquire(ctx, n); !errors.Is(err, lock.ErrTaken) {
			t.Errorf("%q beside the lease of several names: %v, want ErrTaken", n, err)
		}
	}
	if err := lease.Extend(ctx); err != nil {
		t.Errorf("extend: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		rival, err := lock.AcquireAll(ctx, b, []string{third, first})
		if err == nil {
			err = rival.Release(ctx)
		}
		done <- err
	}()
	release(t, lease)
	if err := <-done; err != nil {
		t.Errorf("the waiter for an overlapping set: %v", err)
	}
	if err := lease.Extend(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("extend after release: %v, want ErrNotHeld", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Errorf("second release: %v", err)
	}
}

func testAllTaken(t *testing.T, h Harness) {
	a, b, ctx, free, held := h.Open(t), h.Open(t), patient(t), name(t), name(t)
	lease, err := a.TryAcquire(ctx, held)
	acquired(t, lease, err)
	if _, err := lock.TryAcquireAll(ctx, b, []string{free, held}); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("all or nothing: %v, want ErrTaken", err)
	}
	eventually(t, func() error { return tryOnce(ctx, a, free) })
	release(t, lease)
}

func testElection(t *testing.T, h Harness) {
	ctx, n := patient(t), name(t)
	a, b := lock.NewElection(h.Open(t), n), lock.NewElection(h.Open(t), n)
	term, err := a.Campaign(ctx)
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan *lock.Term, 1)
	go func() {
		term, err := b.Campaign(ctx)
		if err != nil {
			t.Errorf("the second candidate: %v", err)
		}
		next <- term
	}()
	select {
	case <-next:
		t.Fatal("two leaders")
	case <-time.After(50 * time.Millisecond):
	}
	if err := term.Resign(ctx); err != nil {
		t.Fatalf("resign: %v", err)
	}
	second := <-next
	if second == nil {
		return
	}
	if h.Fences && second.Number() <= term.Number() {
		t.Errorf("term %d after %d", second.Number(), term.Number())
	}
	if err := second.Resign(ctx); err != nil {
		t.Errorf("resign: %v", err)
	}
}

// testExclusion runs a read-modify-write on unprotected variables under the
// lock: the race detector watches, too.
func testExclusion(t *testing.T, h Harness) {
	const each = 25
	lockers, ctx, n := []lock.Locker{h.Open(t), h.Open(t), h.Open(t)}, patient(t), name(t)
	counter, fence := 0, int64(0)
	var inside atomic.Int32
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for range each {
				lease, err := lockers[i%3].Acquire(ctx, n)
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two holders")
				}
				counter++
				if h.Fences && lease.Fence() <= fence {
					t.Errorf("fence %d after %d", lease.Fence(), fence)
				}
				fence = lease.Fence()
				inside.Add(-1)
				if err := lease.Release(ctx); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	all.Wait()
	if counter != 6*each && !t.Failed() {
		t.Errorf("counted %d, want %d", counter, 6*each)
	}
}

func testConcurrent(t *testing.T, h Harness) {
	locker, ctx, n := h.Open(t), patient(t), name(t)
	lease, err := locker.TryAcquire(ctx, n)
	acquired(t, lease, err)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				if err := lease.Extend(ctx); err != nil && !errors.Is(err, lock.ErrNotHeld) {
					t.Errorf("extend: %v", err)
				}
				_, _, _ = lease.ValidUntil(), lease.Fence(), lease.Context().Err()
			}
			if err := lease.Release(ctx); err != nil {
				t.Errorf("release: %v", err)
			}
		})
	}
	all.Wait()
	eventually(t, func() error { return tryOnce(ctx, locker, n) })
}
