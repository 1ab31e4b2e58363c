package redfence

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/lock/locktest"
)

func TestLockGoesOnThroughARedisOutage(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	var last int64
	held := func(in *instance) lock.Lease {
		t.Helper()
		lease, err := in.Acquire(t.Context(), "job")
		must(t, err)
		if lease.Fence() <= last {
			t.Errorf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		return lease
	}
	lease := held(a)
	c.killRedis(t)
	_, err := b.TryAcquire(t.Context(), "job")
	wantErr(t, err, lock.ErrTaken)
	must(t, lease.Release(t.Context()))
	lease = held(b)
	c.restartRedis(t)
	_, err = a.TryAcquire(t.Context(), "job")
	wantErr(t, err, lock.ErrTaken)
	must(t, lease.Release(t.Context()))
	must(t, held(a).Release(t.Context()))
}

func TestLockWaitersAreMutuallyExcluded(t *testing.T) {
	c := newCluster(t)
	engines := []*instance{c.start(t, nil), c.start(t, nil), c.start(t, nil)}
	var inside, most, turns int
	var mu sync.Mutex
	enter := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		inside += by
		most = max(most, inside)
		turns++
	}
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			lease, err := engines[i%3].Acquire(t.Context(), "turn")
			if err != nil {
				t.Error(err)
				return
			}
			enter(+1)
			enter(-1)
			if err := lease.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if most != 1 || turns != 60 {
		t.Errorf("%d inside at once, %d turns", most, turns/2)
	}
}

func TestLockIsLostWithTheLedger(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	lease, err := a.Acquire(t.Context(), "job", lock.WithTTL(testLease))
	must(t, err)
	a.pg.Cut()
	<-lease.Done()
	wantErr(t, context.Cause(lease.Context()), lock.ErrLost)
	if time.Now().Before(lease.ValidUntil()) {
		t.Error("the lost signal came before the end of the validity")
	}
	next, err := b.Acquire(t.Context(), "job")
	must(t, err)
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	a.pg.Heal()
	wantErr(t, lease.Extend(t.Context()), lock.ErrLost)
	wantErr(t, lease.Release(t.Context()), lock.ErrLost)
	must(t, next.Extend(t.Context()))
	must(t, next.Release(t.Context()))
}

func TestLockMaxHold(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	lease, err := a.Acquire(t.Context(), "job", lock.WithTTL(testLease), lock.WithMaxHold(testLease))
	must(t, err)
	<-lease.Done()
	wantErr(t, context.Cause(lease.Context()), lock.ErrLost)
	next, err := b.Acquire(t.Context(), "job")
	must(t, err)
	must(t, next.Release(t.Context()))
}

func TestLockWithoutLedger(t *testing.T) {
	c := newCluster(t)
	a := c.start(t, nil)
	a.pg.Cut()
	_, err := a.TryAcquire(t.Context(), "job")
	wantErr(t, err, lock.ErrNoQuorum)
	wantErr(t, err, lock.ErrNotAcquired)
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	_, err = a.Acquire(ctx, "job")
	wantErr(t, err, context.DeadlineExceeded)
	if errors.Is(err, lock.ErrTaken) {
		t.Errorf("%v: taken, although nobody could say so", err)
	}
}

func TestLockNamesAreNoKeysOfDo(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	lease, err := in.Acquire(t.Context(), "same")
	must(t, err)
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "same"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	must(t, lease.Release(t.Context()))
}

func TestLockConformance(t *testing.T) {
	c := newCluster(t)
	locktest.Run(t, locktest.Harness{
		Open:    func(t testing.TB) lock.Locker { return c.start(t.(*testing.T), nil) },
		TTL:     2 * testLease,
		Fences:  true,
		MaxHold: true,
		Freeze: func(t testing.TB, locker lock.Locker, lease lock.Lease) {
			in := locker.(*instance)
			in.pg.Cut()
			<-lease.Done()
			eventually(t, "it has lapsed on the ledger's clock", func() bool {
				if in.pg.isCut() {
					in.ledger.hook(func(f *faultyLedger) {
						f.before = func(method string) error {
							if method == "renew" {
								return errCut
							}
							return nil
						}
					})
					in.pg.Heal()
				}
				row, err := in.ledger.Read(t.Context(), Key{ID: lease.Name()}.in(lockNamespace).Digest())
				return err == nil && row.Lapsed()
			})
		},
	})
}
