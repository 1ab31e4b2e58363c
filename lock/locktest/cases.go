package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redfence/redfence/lock"
)

func testAcquireRelease(t *testing.T, h Harness) {
	locker, ctx, n := h.Open(t), patient(t), name(t)
	for range 3 {
		lease, err := locker.Acquire(ctx, n, lock.WithTTL(h.TTL)) // a try may meet the last node of a release
		acquired(t, lease, err)
		if lease.Name() != n {
			t.Errorf("name %q, want %q", lease.Name(), n)
		}
		if err := lease.Context().Err(); err != nil {
			t.Errorf("context of a held lease: %v", err)
		}
		release(t, lease)
		if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrNotHeld) {
			t.Errorf("cause after the release: %v, want ErrNotHeld", cause)
		}
		select {
		case <-lease.Done():
		default:
			t.Error("Done is open after the release")
		}
	}
}

func testTaken(t *testing.T, h Harness) {
	a, b, ctx, n := h.Open(t), h.Open(t), patient(t), name(t)
	lease, err := a.TryAcquire(ctx, n)
	acquired(t, lease, err)
	for _, locker := range []lock.Locker{a, b} {
		rival, err := locker.TryAcquire(ctx, n)
		if rival != nil || !errors.Is(err, lock.ErrTaken) || !errors.Is(err, lock.ErrNotAcquired) {
			t.Errorf("a second holder: %v, %v; want ErrTaken and ErrNotAcquired", rival, err)
		}
		if errors.Is(err, lock.ErrNoQuorum) || errors.Is(err, lock.ErrTooLate) {
			t.Errorf("outcomes are mixed: %v", err)
		}
	}
	release(t, lease)
	lease, err = b.Acquire(ctx, n)
	release(t, acquired(t, lease, err))
}

func testIndependent(t *testing.T, h Harness) {
	locker, ctx := h.Open(t), patient(t)
	for _, n := range []string{name(t), name(t) + "}:l", "{" + name(t), name(t) + "\x00\xff", name(t) + " *?["} {
		lease, err := locker.TryAcquire(ctx, n)
		acquired(t, lease, err)
		defer release(t, lease)
	}
}

func testBadInput(t *testing.T, h Harness) {
	locker, ctx := h.Open(t), patient(t)
	for what, acquire := range map[string]func() (lock.Lease, error){
		"no name":     func() (lock.Lease, error) { return locker.TryAcquire(ctx, "") },
		"TTL 9 ms":    func() (lock.Lease, error) { return locker.TryAcquire(ctx, name(t), lock.WithTTL(9*time.Millisecond)) },
		"TTL -1 s":    func() (lock.Lease, error) { return locker.Acquire(ctx, name(t), lock.WithTTL(-time.Second)) },
		"no name, A.": func() (lock.Lease, error) { return locker.Acquire(ctx, "") },
	} {
		if lease, err := acquire(); lease != nil || !errors.Is(err, lock.ErrNotAcquired) {
			t.Errorf("%s: %v, %v; want ErrNotAcquired", what, lease, err)
		}
	}
}

func testDeadContext(t *testing.T, h Harness) {
	locker, n := h.Open(t), name(t)
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	for _, acquire := range []func(context.Context, string, ...lock.Option) (lock.Lease, error){locker.Acquire, locker.TryAcquire} {
		lease, err := acquire(dead, n)
		if lease != nil || !errors.Is(err, context.Canceled) || !errors.Is(err, lock.ErrNotAcquired) {
			t.Errorf("%v, %v; want Canceled and ErrNotAcquired", lease, err)
		}
	}
	lease, err := locker.Acquire(patient(t), n)
	release(t, acquired(t, lease, err))
}

func testReleaseTwice(t *testing.T, h Harness) {
	locker, ctx, n := h.Open(t), patient(t), name(t)
	first, err := locker.TryAcquire(ctx, n)
	release(t, acquired(t, first, err))
	second, err := locker.Acquire(ctx, n)
	acquired(t, second, err)
	if err := first.Release(ctx); err != nil {
		t.Errorf("second release: %v, want nil", err)
	}
	if _, err := locker.TryAcquire(ctx, n); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("a replayed release touched a later lease: %v", err)
	}
	if err := second.Extend(ctx); err != nil {
		t.Errorf("extend the later lease: %v", err)
	}
	release(t, second)
}

func testReleaseDead(t *testing.T, h Harness) {
	locker, n := h.Open(t), name(t)
	ctx, cancel := context.WithCancel(context.Background())
	lease, err := locker.TryAcquire(ctx, n)
	acquired(t, lease, err)
	cancel()
	if err := lease.Release(ctx); err != nil {
		t.Errorf("release on a dead context: %v", err)
	}
	lease, err = locker.Acquire(patient(t), n)
	release(t, acquired(t, lease, err))
}

func testExtend(t *testing.T, h Harness) {
	locker, ctx, n := h.Open(t), patient(t), name(t)
	lease, err := locker.TryAcquire(ctx, n, lock.WithTTL(h.TTL))
	acquired(t, lease, err)
	before := lease.ValidUntil()
	h.Pass(locker, h.TTL/10)
	if err := lease.Extend(ctx); err != nil {
		t.Fatalf("extend: %v", err)
	}
	if !lease.ValidUntil().After(before) {
		t.Errorf("valid until %v after the extension, %v before", lease.ValidUntil(), before)
	}
	release(t, lease)
}

func testExtendReleased(t *testing.T, h Harness) {
	locker, ctx, n := h.Open(t), patient(t), name(t)
	lease, err := locker.TryAcquire(ctx, n)
	release(t, acquired(t, lease, err))
	if err := lease.Extend(ctx); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("extend after release: %v, want ErrNotHeld", err)
	}
	lease, err = locker.Acquire(ctx, n)
	release(t, acquired(t, lease, err))
}

func testOutlives(t *testing.T, h Harness) {
	locker, n := h.Open(t), name(t)
	ctx, cancel := context.WithCancel(context.Background())
	lease, err := locker.Acquire(ctx, n, lock.WithTTL(h.TTL))
	acquired(t, lease, err)
	cancel()
	h.Pass(locker, h.TTL*3/2)
	if err := lease.Context().Err(); err != nil {
		t.Errorf("the lease ended with the context of its acquire: %v", context.Cause(lease.Context()))
	}
	release(t, lease)
}

func testValues(t *testing.T, h Harness) {
	type key struct{}
	locker := h.Open(t)
	lease, err := locker.TryAcquire(context.WithValue(patient(t), key{}, "v"), name(t))
	acquired(t, lease, err)
	defer release(t, lease)
	if lease.Context().Value(key{}) != "v" {
		t.Error("the lease's context has lost the values of the acquire's")
	}
}

func testRenewed(t *testing.T, h Harness) {
	a, b, ctx, n := h.Open(t), h.Open(t), patient(t), name(t)
	lease, err := a.TryAcquire(ctx, n, lock.WithTTL(h.TTL))
	acquired(t, lease, err)
	for range 5 {
		h.Pass(a, h.TTL/2)
		if _, err := b.TryAcquire(ctx, n); !errors.Is(err, lock.ErrTaken) {
			t.Fatalf("a rival while the lease is renewed: %v, want ErrTaken", err)
		}
	}
	if err := lease.Context().Err(); err != nil {
		t.Errorf("lost: %v", context.Cause(lease.Context()))
	}
	release(t, lease)
}

func testDo(t *testing.T, h Harness) {
	locker, ctx, n := h.Open(t), patient(t), name(t)
	bad := errors.New("bad")
	err := lock.Do(ctx, locker, n, func(ctx context.Context) error {
		if _, err := locker.TryAcquire(ctx, n); !errors.Is(err, lock.ErrTaken) {
			t.Errorf("inside Do: %v, want ErrTaken", err)
		}
		return bad
	})
	if err != bad { //nolint:errorlint // it must be the same
		t.Errorf("Do: %v, want what the function returned", err)
	}
	lease, err := locker.TryAcquire(ctx, n)
	release(t, acquired(t, lease, err))
}

func testDoLoses(t *testing.T, h Harness) {
	if !h.MaxHold {
		t.Skip("needs MaxHold")
	}
	locker, ctx := h.Open(t), patient(t)
	err := lock.Do(ctx, locker, name(t), func(ctx context.Context) error {
		h.Pass(locker, h.TTL)
		<-ctx.Done()
		return nil
	}, lock.WithMaxHold(h.TTL/2))
	if !errors.Is(err, lock.ErrLost) {
		t.Errorf("Do whose lease was lost: %v, want ErrLost", err)
	}
}

func testFences(t *testing.T, h Harness) {
	if !h.Fences {
		t.Skip("no fences")
	}
	lockers, ctx, n := []lock.Locker{h.Open(t), h.Open(t), h.Open(t)}, patient(t), name(t)
	var last int64
	for i := range 30 {
		lease, err := lockers[i%3].Acquire(ctx, n)
		acquired(t, lease, err)
		if lease.Fence() <= last {
			t.Fatalf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		release(t, lease)
	}
}

func testLapsed(t *testing.T, h Harness) {
	if h.Freeze == nil {
		t.Skip("leases cannot be frozen")
	}
	locker, ctx := h.Open(t), patient(t)
	lease, err := locker.TryAcquire(ctx, name(t), lock.WithTTL(h.TTL))
	acquired(t, lease, err)
	h.Freeze(t, locker, lease)
	select {
	case <-lease.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the lease lapsed and its context goes on")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause: %v, want ErrLost", cause)
	}
	if err := lease.Extend(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("extend: %v, want ErrLost", err)
	}
	if err := lease.Release(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
}

func testRival(t *testing.T, h Harness) {
	if h.Freeze == nil {
		t.Skip("leases cannot be frozen")
	}
	a, b, ctx, n := h.Open(t), h.Open(t), patient(t), name(t)
	lease, err := a.TryAcquire(ctx, n, lock.WithTTL(h.TTL))
	acquired(t, lease, err)
	h.Freeze(t, a, lease)
	rival, err := b.Acquire(ctx, n)
	acquired(t, rival, err)
	if h.Fences && rival.Fence() <= lease.Fence() {
		t.Errorf("the rival's fence %d after %d", rival.Fence(), lease.Fence())
	}
	if err := lease.Extend(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("extend: %v, want ErrLost", err)
	}
	if err := lease.Release(ctx); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
	if err := rival.Extend(ctx); err != nil {
		t.Errorf("the lapsed lease harmed its rival: %v", err)
	}
	release(t, rival)
}

func testMaxHold(t *testing.T, h Harness) {
	if !h.MaxHold {
		t.Skip("no MaxHold")
	}
	a, b, ctx, n := h.Open(t), h.Open(t), patient(t), name(t)
	free, err := a.TryAcquire(ctx, n+"-free", lock.WithTTL(h.TTL))
	defer release(t, acquired(t, free, err))
	lease, err := a.TryAcquire(ctx, n, lock.WithTTL(h.TTL), lock.WithMaxHold(h.TTL/2))
	acquired(t, lease, err)
	if !lease.ValidUntil().Before(free.ValidUntil()) {
		t.Errorf("valid until %v, beyond MaxHold; without it until %v", lease.ValidUntil(), free.ValidUntil())
	}
	h.Pass(a, h.TTL/2+h.TTL/20)
	select {
	case <-lease.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("held beyond MaxHold")
	}
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("cause: %v, want ErrLost", cause)
	}
	rival, err := b.Acquire(ctx, n)
	release(t, acquired(t, rival, err))
}
