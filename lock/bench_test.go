package lock

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
)

// cycle is one lock and unlock of a name.
type cycle func(ctx context.Context, name string) error

func lockerCycle(l Locker) cycle {
	return func(ctx context.Context, name string) error {
		lease, err := l.TryAcquire(ctx, name)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	}
}

func stockCycle(clients []redis.UniversalClient) cycle {
	pools := make([]redsyncredis.Pool, len(clients))
	for i, c := range clients {
		pools[i] = goredis.NewPool(c)
	}
	rs := redsync.New(pools...)
	return func(ctx context.Context, name string) error {
		m := rs.NewMutex(name, redsync.WithExpiry(10*time.Second), redsync.WithTries(1))
		if err := m.TryLockContext(ctx); err != nil {
			return err
		}
		_, err := m.UnlockContext(ctx)
		return err
	}
}

// rawCycle is what the wire allows: SET NX and a scripted delete at every
// node, pipelined, with no algorithm.
func rawCycle(tb testing.TB, clients []redis.UniversalClient) cycle {
	pipes := make([]*redis.AutoPipeliner, len(clients))
	for i, c := range clients {
		p, err := c.AsyncAutoPipeline()
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = p.Close() })
		pipes[i] = p
	}
	del := redis.NewScript(`if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`)
	for _, c := range clients {
		if err := del.Load(context.Background(), c).Err(); err != nil {
			tb.Fatal(err)
		}
	}
	return func(ctx context.Context, name string) error {
		token := newToken()
		sets := make([]*redis.BoolCmd, len(pipes))
		for i, p := range pipes {
			sets[i] = p.SetNX(ctx, name, token, 10*time.Second)
		}
		for _, s := range sets {
			if ok, err := s.Result(); err != nil || !ok {
				return fmt.Errorf("set: %v %w", ok, err)
			}
		}
		dels := make([]*redis.Cmd, len(pipes))
		for i, p := range pipes {
			dels[i] = p.EvalSha(ctx, del.Hash(), []string{name}, token)
		}
		for _, d := range dels {
			if err := d.Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

// BenchmarkCycle measures lock and unlock of distinct names over five nodes.
// Compare within one run; figures of two runs do not compare.
func BenchmarkCycle(b *testing.B) {
	servers := testenv.Redis(b, 5)
	clients := clientsOf(servers)
	ctx := context.Background()
	if err := Init(ctx, clients); err != nil {
		b.Fatal(err)
	}
	contenders := []struct {
		name string
		make func(b *testing.B) cycle
	}{
		{"stock", func(*testing.B) cycle { return stockCycle(clients) }},
		{"raw", func(b *testing.B) cycle { return rawCycle(b, clients) }},
		{"unguarded", func(b *testing.B) cycle { return lockerCycle(benchLocker(b, clients, Config{Unguarded: true})) }},
		{"unguarded-direct", func(b *testing.B) cycle {
			return lockerCycle(benchLocker(b, clients, Config{Unguarded: true, Direct: true}))
		}},
		{"guarded", func(b *testing.B) cycle { return lockerCycle(benchLocker(b, clients, Config{})) }},
	}
	for _, callers := range []int{1, 128} {
		for _, c := range contenders {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, c.name), func(b *testing.B) {
				cycle := c.make(b)
				b.ResetTimer()
				cpu := processCPU()
				runCycles(b, callers, func(i int) error { return cycle(ctx, fmt.Sprintf("%s-%d", b.Name(), i)) })
				b.ReportMetric(float64((processCPU()-cpu).Microseconds())/float64(b.N), "cpu-µs/cycle")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "cycles/s")
			})
		}
	}
}

// processCPU is the time that this process has computed. It says more than the
// clock on a machine that has other things to do.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func benchLocker(b *testing.B, clients []redis.UniversalClient, cfg Config) *Redlock {
	cfg.NodeTimeout = 5 * time.Second // this measures speed, whatever else runs
	r, err := New(context.Background(), clients, cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.Close() })
	return r
}

func runCycles(b *testing.B, callers int, do func(i int) error) {
	var next atomic.Int64
	errs := make(chan error, callers)
	for range callers {
		go func() {
			for {
				i := next.Add(1)
				if i > int64(b.N) {
					errs <- nil
					return
				}
				if err := do(int(i)); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	for range callers {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
}
