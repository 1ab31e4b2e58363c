// Package demo is what the examples share: an engine whose stores are in this
// process, and a client that sends one request twice.
package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/redfencehttp"
)

// Middleware returns a middleware with the IETF preset and what ends it. A real
// service has five Redis nodes, Postgres, and a scope from its authentication.
func Middleware() (mw *redfencehttp.Middleware, stop func(), err error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	engine, err := redfence.New(context.Background(), redfence.Config{
		Nodes: []redis.UniversalClient{client}, Ledger: fallback.NewMemory(),
	})
	if err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = engine.Close(context.Background())
		_ = client.Close()
		server.Close()
	}
	tenant := func(r *http.Request) string { return r.Header.Get("X-Authenticated-Tenant") }
	mw, err = redfencehttp.New(engine, redfencehttp.IETF(), redfencehttp.Scope(tenant))
	return mw, stop, err
}

// Twice sends one request twice to a handler and prints what comes back.
func Twice(h http.Handler) {
	s := httptest.NewServer(h)
	defer s.Close()
	for range 2 {
		r, err := http.NewRequest(http.MethodPost, s.URL+"/charges/42", strings.NewReader(`{"amount":1}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		r.Header.Set("Idempotency-Key", "tx-1")
		r.Header.Set("X-Authenticated-Tenant", "acme")
		resp, err := s.Client().Do(r)
		if err != nil {
			fmt.Println(err)
			return
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Printf("%d %s replayed=%q\n", resp.StatusCode, strings.TrimSpace(string(body)), resp.Header.Get("Idempotent-Replayed"))
	}
}
