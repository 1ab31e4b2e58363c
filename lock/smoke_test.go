package lock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/testenv"
)

func TestSmoke(t *testing.T) {
	servers := testenv.Redis(t, 3)
	ctx := context.Background()
	for _, direct := range []bool{false, true} {
		r, err := New(ctx, clientsOf(servers), Config{Unguarded: true, Direct: direct})
		if err != nil {
			t.Fatal(err)
		}
		l, err := r.TryAcquire(ctx, "a", WithTTL(300*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.TryAcquire(ctx, "a")
		if !errors.Is(err, ErrTaken) || !errors.Is(err, ErrNotAcquired) {
			t.Fatal(err)
		}
		t.Log(err)
		time.Sleep(time.Second)
		if err := l.Extend(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := r.Probe(ctx); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
}

func TestHandOff(t *testing.T) {
	servers := testenv.Redis(t, 5)
	ctx := context.Background()
	a, err := New(ctx, clientsOf(servers), Config{Unguarded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := New(ctx, clientsOf(servers), Config{Unguarded: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var took []time.Duration
	for range 200 {
		l, err := a.TryAcquire(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan time.Time)
		go func() {
			l, err := b.Acquire(ctx, "x")
			got <- time.Now()
			if err == nil {
				err = l.Release(ctx)
			}
			if err != nil {
				t.Error(err)
			}
			got <- time.Now()
		}()
		time.Sleep(3 * time.Millisecond)
		start := time.Now()
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		took = append(took, (<-got).Sub(start))
		<-got
	}
	slices.Sort(took)
	t.Log(took[100], took[190], took[199])
}

func TestGuarded(t *testing.T) {
	servers := testenv.Redis(t, 3)
	ctx := context.Background()
	if err := Init(ctx, clientsOf(servers), Config{MaxTTL: 2 * time.Second}); err != nil {
		t.Fatal(err)
	}
	r, err := New(ctx, clientsOf(servers), Config{MaxTTL: 2 * time.Second, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	last := int64(0)
	for range 3 {
		l, err := r.TryAcquire(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		t.Log(l.Fence())
		if l.Fence() <= last {
			t.Fatal("fence")
		}
		last = l.Fence()
		l.Release(ctx)
	}
	servers[0].Restart()
	servers[1].Restart()
	_, err = r.TryAcquire(ctx, "a")
	t.Log(err)
	_, err = r.TryAcquire(ctx, "a")
	t.Log(err)
	start := time.Now()
	l, err := r.Acquire(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(l.Fence(), time.Since(start))
	_, err = New(ctx, clientsOf(servers), Config{MaxTTL: 3 * time.Second, TTL: time.Second})
	t.Log(err)
	if err == nil {
		t.Fatal("maxttl")
	}
	t.Log(Init(ctx, clientsOf(servers), Config{MaxTTL: 2 * time.Second}))
}
