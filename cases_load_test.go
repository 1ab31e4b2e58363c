package redfence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

// long is whether the cases run at their full length.
var long = os.Getenv("REDFENCE_LONG") != ""

func longOr[T any](full, short T) T {
	if long {
		return full
	}
	return short
}

// load calls in turn with fresh keys and duplicates until stop, from several
// callers, and counts the starts of each key.
type load struct {
	engines []*instance
	starts  sync.Map // id → *atomic.Int64
	answers sync.Map // id → body of the first durable answer
	served  atomic.Int64
	refused atomic.Int64
}

func (l *load) run(t *testing.T, callers int, stop <-chan struct{}) {
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
					l.call(t, l.engines[(i+n)%len(l.engines)], fmt.Sprintf("%d-%d", i, n/3)) // each key three times
				}
			}
		})
	}
	group.Wait()
}

func (l *load) call(t *testing.T, in *instance, id string) {
	if l.do(t, in, id) != nil {
		l.refused.Add(1)
	}
}

// do makes one call and compares its answer with the first of its key.
func (l *load) do(t *testing.T, in *instance, id string) error {
	res, err := in.Do(t.Context(), Request{ID: id}, func(_ context.Context, ex *Execution) (Response, error) {
		n, _ := l.starts.LoadOrStore(id, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		return Response{Body: fmt.Append(nil, id, " fence ", ex.Fence())}, nil
	})
	if err != nil {
		return err
	}
	l.served.Add(1)
	if res.Durable {
		body := string(res.Response.Body)
		if first, there := l.answers.LoadOrStore(id, body); there && first != body {
			t.Errorf("key %s: %q after %q", id, body, first)
		}
	}
	return nil
}

// check: no key was started twice, and every durable answer is still given.
func (l *load) check(t *testing.T, in *instance) {
	t.Helper()
	l.starts.Range(func(id, n any) bool {
		if n.(*atomic.Int64).Load() > 1 {
			t.Errorf("key %v started %d times", id, n.(*atomic.Int64).Load())
		}
		return true
	})
	l.answers.Range(func(id, body any) bool {
		rec, err := in.Inspect(t.Context(), Key{ID: id.(string)})
		if err != nil || string(rec.Stored.Body) != body {
			t.Errorf("key %v: the ledger has %q, %v; answered was %q", id, rec.Stored.Body, err, body)
		}
		return true
	})
}

func TestI23RedisToggled(t *testing.T) {
	c := newCluster(t)
	engines := []*instance{c.start(t, nil), c.start(t, nil)}
	l := load{engines: engines}
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() { l.run(t, 8, stop) })
	lasts := longOr(time.Minute, 3*time.Second)
	began := time.Now()
	for time.Since(began) < lasts {
		for _, in := range engines {
			in.redis.Cut()
		}
		must(t, sleep(t.Context(), 50*time.Millisecond))
		for _, in := range engines {
			in.redis.Heal()
		}
		must(t, sleep(t.Context(), 50*time.Millisecond))
	}
	close(stop)
	group.Wait()
	lasted := time.Since(began)
	l.check(t, engines[0])
	if l.served.Load() == 0 || l.refused.Load() > 0 {
		t.Errorf("%d served, %d refused", l.served.Load(), l.refused.Load())
	}
	// Open for at least 500 ms, then three canaries 250 ms apart: two changes a second at most.
	for _, in := range engines {
		if n := in.events.count("route_changed"); float64(n) > 2+2*lasted.Seconds() {
			t.Errorf("%d route changes in %v", n, lasted)
		}
	}
}

func TestI24PostgresKilledUnderLoad(t *testing.T) {
	c := &cluster{nodes: testenv.Redis(t, 5), postgres: testenv.OwnPostgres(t)}
	engines := []*instance{c.start(t, nil), c.start(t, nil)}
	l := load{engines: engines}
	for range 2 {
		stop := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() { l.run(t, 8, stop) })
		eventually(t, "load before the kill", func() bool { return l.served.Load() > 50 })
		must(t, c.postgres.Kill())
		refused := l.refused.Load()
		eventually(t, "fresh keys are refused", func() bool { return l.refused.Load() > refused })
		must(t, c.postgres.Restart())
		served := l.served.Load()
		eventually(t, "fresh keys are served again", func() bool { return l.served.Load() > served+50 })
		close(stop)
		group.Wait()
		l.check(t, engines[0])
	}
}

func TestI25PoolExhausted(t *testing.T) {
	c := newCluster(t)
	cfg, err := pgxpool.ParseConfig(c.postgres.URL())
	must(t, err)
	cfg.MaxConns = 2
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	ledger, err := fallback.Open(t.Context(), pool, fallback.Config{Migrate: true, AcquireTimeout: 50 * time.Millisecond, Listen: fallback.Listen{Off: true}})
	must(t, err)
	t.Cleanup(func() { ledger.Close() })
	in := c.start(t, func(cfg *Config) { cfg.Ledger = ledger })
	var held []*pgxpool.Conn
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		must(t, err)
		held = append(held, conn)
	}
	var work counter
	for range 5 {
		_, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
		wantErr(t, err, ErrOverloaded)
	}
	work.want(t, 0)
	if in.Route() != observe.Primary {
		t.Error("the breaker opened for a full pool")
	}
	for _, conn := range held {
		conn.Release()
	}
	res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
}

func TestI26ManyKeysThroughOneEngine(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.NearCache = 1 << 20; cfg.Observer = nil })
	keys := longOr(1_000_000, 6_000)
	half := func(from int) uint64 {
		var group sync.WaitGroup
		var next atomic.Int64
		for range 64 {
			group.Go(func() {
				for {
					n := int(next.Add(1))
					if n > keys/2 {
						return
					}
					_, err := in.Do(t.Context(), Request{ID: fmt.Sprint(from + n)}, func(context.Context, *Execution) (Response, error) {
						return Response{Body: make([]byte, 300)}, nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	first := half(0)
	second := half(keys)
	if grown := int64(second) - int64(first); grown > 8<<20 {
		t.Errorf("the heap grew by %d bytes between %d and %d keys", grown, keys/2, keys)
	}
}

func TestI40RestartedInstanceAdoptsNothing(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.Owner = "the same name" })
	key := Key{ID: "k"}.in(doNamespace)
	_, err := in.ledger.Claim(t.Context(), fallback.ClaimRequest{ // by a process that has died since
		Key: key, Digest: key.Digest(), Token: fallback.NewToken(), Owner: "the same name", Policy: testPolicy().withDefaults().stored(),
	})
	must(t, err)
	var work counter
	_, err = in.Do(t.Context(), Request{ID: "k", Policy: noWait(testPolicy())}, work.handle)
	wantErr(t, err, ErrInProgress)
	_, err = in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantErr(t, err, ErrUnknownOutcome)
	work.want(t, 0)
}

func TestLedgerDown(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 100 * time.Millisecond })
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "done"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	in.pg.Cut()
	res, err = in.Do(t.Context(), Request{ID: "done"}, work.handle) // R10: from the cache
	wantResult(t, res, err, Replayed, "run 1")
	_, err = in.Do(t.Context(), Request{ID: "fresh"}, work.handle)
	wantErr(t, err, ErrLedgerUnavailable)
	open := testPolicy()
	open.FailOpen = true
	res, err = in.Do(t.Context(), Request{ID: "fresh", Policy: &open}, work.handle)
	if err != nil || res.Outcome != Unrecorded || res.Durable || res.Fence != 0 || string(res.Response.Body) != "run 2" {
		t.Errorf("fail open: %+v, %v", res, err)
	}
	in.ledger.hook(func(f *faultyLedger) { f.claim = lostReply(time.Now().Add(time.Minute)) })
	in.pg.Heal()
	for how, takes := range map[string]time.Duration{"refused": 0, "silent": 2 * in.cfg.LedgerTimeout} {
		in.ledger.hook(func(f *faultyLedger) {
			f.before = func(method string) error {
				if method != "read" {
					return nil
				}
				time.Sleep(takes)
				return errors.Join(fallback.ErrUnavailable, errCut)
			}
		})
		res, err = in.Do(t.Context(), Request{ID: "doubtful " + how, Policy: &open}, work.handle)
		wantErr(t, err, ErrLedgerUnavailable) // never while a claim's outcome is unknown
		if res.Outcome != 0 {
			t.Errorf("%s: %v although the claim may be in force", how, res.Outcome)
		}
	}
	work.want(t, 2)
	in.ledger.hook(func(f *faultyLedger) { f.before, f.claim = nil, nil })
}
