package redfence

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

// Times are ratios: the shortest that a loaded machine can keep.
const (
	testLease     = 500 * time.Millisecond
	testRetention = 2 * time.Minute
	patience      = 20 * time.Second // for anything that has to happen
)

// testPolicy is Hold with the times of the tests.
func testPolicy() Policy {
	return Policy{Lease: testLease, MaxProcessing: time.Minute, Retention: testRetention}
}

func retryPolicy() Policy {
	p := testPolicy()
	p.OnAbandoned = Retry
	return p
}

func noWait(p Policy) *Policy {
	p.Wait = NoWait
	return &p
}

// A cluster is real servers, and engines on them that the test can cut off.
type cluster struct {
	nodes    []*testenv.RedisServer
	postgres *testenv.PostgresServer
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return &cluster{nodes: testenv.Redis(t, 5), postgres: testenv.Postgres(t)}
}

func (c *cluster) killRedis(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		must(t, n.Kill())
	}
}

func (c *cluster) restartRedis(t *testing.T) {
	t.Helper()
	for _, n := range c.nodes {
		must(t, n.Restart())
	}
}

// An instance is an engine with links of its own.
type instance struct {
	*Engine
	redis, pg *link
	ledger    *faultyLedger
	events    *recorder
}

// start starts an instance; change may be nil.
func (c *cluster) start(t *testing.T, change func(*Config)) *instance {
	t.Helper()
	in := &instance{redis: &link{}, pg: &link{}, events: &recorder{}}
	cfg := Config{Policy: testPolicy(), LedgerTimeout: 2 * time.Second, Observer: in.events}
	for _, n := range c.nodes {
		client := redis.NewClient(&redis.Options{
			Addr: n.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1, Dialer: in.redis.dial,
		})
		t.Cleanup(func() { client.Close() })
		cfg.Nodes = append(cfg.Nodes, client)
	}
	in.ledger = &faultyLedger{Postgres: openLedger(t, c.postgres.URL(), in.pg.dial)}
	cfg.Ledger = in.ledger
	if change != nil {
		change(&cfg)
	}
	engine, err := New(t.Context(), cfg)
	must(t, err)
	in.Engine = engine
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		if err := engine.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return in
}

func openLedger(t *testing.T, url string, dial func(context.Context, string, string) (net.Conn, error)) *fallback.Postgres {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(url)
	must(t, err)
	cfg.ConnConfig.DialFunc = dial
	cfg.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	t.Cleanup(pool.Close)
	ledger, err := fallback.Open(t.Context(), pool, fallback.Config{Migrate: true})
	must(t, err)
	t.Cleanup(func() { ledger.Close() })
	return ledger
}

// faultyLedger is a real ledger whose answers the test can change.
type faultyLedger struct {
	*fallback.Postgres
	mu       sync.Mutex
	claim    func(fallback.Verdict, error) (fallback.Verdict, error)
	complete func(fallback.Record, error) (fallback.Record, error)
	before   func(method string) error
}

func (f *faultyLedger) hook(set func(*faultyLedger)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set(f)
}

func (f *faultyLedger) hooks() (c func(fallback.Verdict, error) (fallback.Verdict, error), d func(fallback.Record, error) (fallback.Record, error), b func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claim, f.complete, f.before
}

func (f *faultyLedger) ask(method string) error {
	if _, _, before := f.hooks(); before != nil {
		return before(method)
	}
	return nil
}

func (f *faultyLedger) Claim(ctx context.Context, r fallback.ClaimRequest) (fallback.Verdict, error) {
	if err := f.ask("claim"); err != nil {
		return fallback.Verdict{}, err
	}
	v, err := f.Postgres.Claim(ctx, r)
	if claim, _, _ := f.hooks(); claim != nil {
		return claim(v, err)
	}
	return v, err
}

func (f *faultyLedger) Read(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	if err := f.ask("read"); err != nil {
		return fallback.Record{}, err
	}
	return f.Postgres.Read(ctx, d)
}

func (f *faultyLedger) Confirm(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	if err := f.ask("read"); err != nil {
		return fallback.Record{}, err
	}
	return f.Postgres.Confirm(ctx, d)
}

func (f *faultyLedger) Renew(ctx context.Context, r fallback.Ref, late bool) (fallback.Grant, error) {
	if err := f.ask("renew"); err != nil {
		return fallback.Grant{}, err
	}
	return f.Postgres.Renew(ctx, r, late)
}

func (f *faultyLedger) Complete(ctx context.Context, c fallback.Completion) (fallback.Record, error) {
	if err := f.ask("complete"); err != nil {
		return fallback.Record{}, err
	}
	row, err := f.Postgres.Complete(ctx, c)
	if _, complete, _ := f.hooks(); complete != nil {
		return complete(row, err)
	}
	return row, err
}

// recorder keeps the events of one engine.
type recorder struct {
	mu  sync.Mutex
	all []observe.Event
}

func (r *recorder) Observe(e observe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

func (r *recorder) count(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.all {
		if e.Name() == name {
			n++
		}
	}
	return n
}

// A counter is a handler that counts its starts and answers with the count.
type counter struct {
	starts atomic.Int64
	block  chan struct{} // if set: the handler waits for it or its context
	begun  chan struct{} // receives once per start, if set
}

func (c *counter) handle(ctx context.Context, ex *Execution) (Response, error) {
	n := c.starts.Add(1)
	if c.begun != nil {
		c.begun <- struct{}{}
	}
	if c.block != nil {
		select {
		case <-c.block:
		case <-ctx.Done():
			return Response{}, context.Cause(ctx)
		}
	}
	return Response{Status: 200, Body: fmt.Appendf(nil, "run %d", n)}, nil
}

func (c *counter) want(t *testing.T, n int64) {
	t.Helper()
	if got := c.starts.Load(); got != n {
		t.Errorf("the handler started %d times, want %d", got, n)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func wantResult(t testing.TB, res Result, err error, outcome Outcome, body string) {
	t.Helper()
	must(t, err)
	if res.Outcome != outcome || string(res.Response.Body) != body || !res.Durable {
		t.Fatalf("%v %q durable %v, want %v %q durable", res.Outcome, res.Response.Body, res.Durable, outcome, body)
	}
}

// eventually waits until the condition holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
