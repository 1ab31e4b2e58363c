package lock

import (
	"context"
	"errors"
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
