package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/lock/locktest"
)

func clients(servers []*testenv.RedisServer) []redis.UniversalClient {
	list := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		list[i] = s.Client()
	}
	return list
}

// TestConformance runs the suite on five real nodes, with redsync and without,
// with the restart guard and without.
func TestConformance(t *testing.T) {
	nodes := clients(testenv.Redis(t, 5))
	if err := lock.Init(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]lock.Config{
		"guarded":           {},
		"unguarded redsync": {Unguarded: true},
		"unguarded direct":  {Unguarded: true, Direct: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			locktest.Run(t, locktest.Harness{
				Open:    func(t testing.TB) lock.Locker { return open(t, nodes, cfg) },
				TTL:     600 * time.Millisecond,
				Freeze:  func(t testing.TB, _ lock.Locker, lease lock.Lease) { lock.Freeze(t, lease) },
				Fences:  !cfg.Unguarded,
				MaxHold: true,
				HandOff: time.Second,
			})
		})
	}
}

func open(t testing.TB, nodes []redis.UniversalClient, cfg lock.Config) *lock.Redlock {
	t.Helper()
	cfg.NodeTimeout = time.Second // the machine may have much else to do
	r, err := lock.New(context.Background(), nodes, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func TestConformanceOfMemory(t *testing.T) {
	shared := map[testing.TB]*lock.Memory{}
	locktest.Run(t, locktest.Harness{
		Open: func(t testing.TB) lock.Locker {
			if shared[t] == nil {
				shared[t] = lock.NewMemory()
			}
			return shared[t]
		},
		Freeze: func(_ testing.TB, locker lock.Locker, lease lock.Lease) {
			m := locker.(*lock.Memory)
			m.Stop(lease)
			m.Advance(lease.ValidUntil().Sub(m.Now()))
		},
		Pass:    func(locker lock.Locker, d time.Duration) { locker.(*lock.Memory).Advance(d) },
		Fences:  true,
		MaxHold: true,
	})
}
