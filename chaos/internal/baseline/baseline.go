// Package baseline is what people compose in good faith for the same promise,
// behind the same HTTP as the engine: the same schedules and scripted
// scenarios show what it is worth.
//
//   - naive: Redis first. Look the response up in Redis, take a stock redsync
//     lock over the nodes and extend it while the handler works, look again, in
//     Redis and in a table of Postgres, run the handler, store the response on
//     every node. When a circuit breaker over the quorum is open, or a lock
//     finds no quorum, a row of that table stands in for the lock and keeps the
//     response. A failed handler releases its key.
//   - redsync: a stock redsync lock around the handler as in its README, and the
//     response on every node.
//
// Both pass the failpoints of the engine where they do the same thing.
package baseline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/redfencehttp"
)

// Ours is the engine that the baselines are compared with.
const Ours = "redfence"

// The baselines.
const (
	Naive   = "naive"
	Redsync = "redsync"
)

// Names returns the engines that an instance can serve, ours first.
func Names() []string { return []string{Ours, Naive, Redsync} }

// RouteHeader tells the handler by which route it was started: primary or
// fallback.
const RouteHeader = "Chaos-Route"

// The routes.
const (
	primary  = "primary"
	fallback = "fallback"
)

// Config says what a baseline works with.
type Config struct {
	// Nodes are independent Redis nodes.
	Nodes []redis.UniversalClient
	// Pool is Postgres; only naive uses it.
	Pool *pgxpool.Pool
	// Lease is how long a lock lives without being extended.
	Lease time.Duration
	// Retention is how long a response is kept.
	Retention time.Duration
}

// errTaken says that somebody else works on the key.
var errTaken = errors.New("the key is in progress")

// A runner calls the handler by a route and returns its response.
type runner func(ctx context.Context, route string) *response

// An engine answers a key by running the handler or by a stored response.
type engine interface {
	do(ctx context.Context, key string, run runner) (r *response, replayed bool, err error)
}

// New returns the middleware of a baseline.
func New(ctx context.Context, name string, c Config) (func(http.Handler) http.Handler, error) {
	var e engine
	var err error
	switch name {
	case Naive:
		e, err = newNaive(ctx, c)
	case Redsync:
		e = &stock{locks: newLocks(c), responses: responses{nodes: c.Nodes, retention: c.Retention}}
	default:
		err = fmt.Errorf("baseline: no engine %q", name)
	}
	return func(next http.Handler) http.Handler { return &middleware{engine: e, next: next} }, err
}

type middleware struct {
	engine engine
	next   http.Handler
}

// ServeHTTP implements http.Handler. The handler goes on when its client is
// gone, as behind the engine.
func (m *middleware) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run := func(ctx context.Context, route string) *response {
		inner := req.Clone(ctx)
		inner.Body = io.NopCloser(bytes.NewReader(body))
		inner.Header.Set(RouteHeader, route)
		return m.run(inner)
	}
	r, replayed, err := m.engine.do(context.WithoutCancel(req.Context()), req.Header.Get("Idempotency-Key"), run)
	switch {
	case errors.Is(err, errTaken):
		http.Error(w, err.Error(), http.StatusConflict)
	case err != nil:
		http.Error(w, strings.ReplaceAll(err.Error(), "\n", "; "), http.StatusServiceUnavailable)
	default:
		if replayed {
			w.Header().Set(redfencehttp.ReplayedHeader, "true")
		}
		r.writeTo(w)
	}
}

// run calls the handler and holds back what it writes.
func (m *middleware) run(req *http.Request) *response {
	r := &response{Status: http.StatusOK, Head: http.Header{}}
	if err := failpoint.Hit(req.Context(), "before-effect"); err != nil {
		return failed(err)
	}
	m.next.ServeHTTP(r, req)
	if err := failpoint.Hit(req.Context(), "after-effect"); err != nil {
		return failed(err)
	}
	return r
}
