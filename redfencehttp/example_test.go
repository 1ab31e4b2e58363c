package redfencehttp_test

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

// newEngine returns an engine whose stores are in this process, and what ends
// it. A real one has five Redis nodes and Postgres.
func newEngine() (*redfence.Engine, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	engine, err := redfence.New(context.Background(), redfence.Config{
		Nodes: []redis.UniversalClient{client}, Ledger: fallback.NewMemory(),
	})
	if err != nil {
		panic(err)
	}
	return engine, func() {
		engine.Close(context.Background())
		client.Close()
		server.Close()
	}
}

// send posts a body under a key and prints the answer.
func send(h http.Handler, path, key, body string) {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Printf("%d %q replayed=%q\n", w.Code, w.Body, w.Header().Get(redfencehttp.ReplayedHeader))
}

// A duplicate gets the recorded response; another request under the same key
// is refused.
func ExampleMiddleware_Wrap() {
	engine, stop := newEngine()
	defer stop()
	mw, err := redfencehttp.New(engine, redfencehttp.IETF(), redfencehttp.Unscoped(),
		redfencehttp.Problems("https://api.example/problems/", ""))
	if err != nil {
		fmt.Println(err)
		return
	}
	charges := 0
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		charges++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "charge %d", charges)
	}))
	send(h, "/charges", "tx-1", "10 EUR")
	send(h, "/charges", "tx-1", "10 EUR")
	send(h, "/charges", "tx-1", "99 EUR")
	// Output:
	// 201 "charge 1" replayed=""
	// 201 "charge 1" replayed="true"
	// 422 "{\"type\":\"https://api.example/problems/mismatch\",\"title\":\"The idempotency key was used with another request\",\"status\":422}" replayed=""
}

// Routes begin with the middleware's settings and have overrides of their own.
func ExampleRoute() {
	engine, stop := newEngine()
	defer stop()
	mw, err := redfencehttp.New(engine, redfencehttp.IETF(), redfencehttp.Unscoped(),
		redfencehttp.Route("POST /hooks/", redfencehttp.Webhook(), redfencehttp.WithoutBodies()),
		redfencehttp.Route("POST /ping", redfencehttp.Off()))
	if err != nil {
		fmt.Println(err)
		return
	}
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "done") }))
	for _, path := range []string{"/hooks/a", "/hooks/a", "/ping", "/ping"} {
		send(h, path, "delivery-1"+path, "")
	}
	// Output:
	// 200 "done" replayed=""
	// 200 "{\"cached\":true,\"message\":\"Request already processed\"}" replayed="true"
	// 200 "done" replayed=""
	// 200 "done" replayed=""
}

// A handler that knows that nothing has happened says so, and the next request
// runs again.
func ExampleDeclare() {
	engine, stop := newEngine()
	defer stop()
	mw, err := redfencehttp.New(engine, redfencehttp.Stripe(), redfencehttp.Unscoped())
	if err != nil {
		fmt.Println(err)
		return
	}
	tries := 0
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries == 1 {
			redfencehttp.Declare(r.Context(), redfencehttp.Released)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "charged")
	}))
	send(h, "/charges", "tx-1", "")
	send(h, "/charges", "tx-1", "")
	// Output:
	// 503 "" replayed=""
	// 200 "charged" replayed=""
}

// The client sends the same key on every attempt, so a dropped reply does no
// harm.
func ExampleNewTransport() {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "request %d under %s", requests, r.Header.Get("Idempotency-Key"))
	}))
	defer s.Close()
	client := &http.Client{Transport: redfencehttp.NewTransport(nil,
		redfencehttp.KeyFunc(func(r *http.Request) (string, error) { return "order-17", nil }))}
	resp, err := client.Post(s.URL, "text/plain", strings.NewReader("10 EUR"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output:
	// request 2 under order-17 <nil>
}
