package redfencehttp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEngine returns an engine on one Redis node, in memory, and a ledger.
func newEngine(t testing.TB, ledger fallback.Ledger, configure ...func(*redfence.Config)) *redfence.Engine {
	t.Helper()
	engine, _ := newEngineOn(t, ledger, configure...)
	return engine
}

// newEngineOn also returns its Redis.
func newEngineOn(t testing.TB, ledger fallback.Ledger, configure ...func(*redfence.Config)) (*redfence.Engine, *miniredis.Miniredis) {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	cfg := redfence.Config{Nodes: []redis.UniversalClient{client}, Ledger: ledger, NearCache: -1}
	for _, change := range configure {
		change(&cfg)
	}
	engine, err := redfence.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := engine.Close(ctx); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	return engine, server
}

// A service is a protected handler behind a real socket.
type service struct {
	*httptest.Server
	t    testing.TB
	runs atomic.Int64
}

// serve protects a handler with an engine of its own.
func serve(t testing.TB, handler http.HandlerFunc, opts ...Option) *service {
	t.Helper()
	return serveOn(t, newEngine(t, fallback.NewMemory()), handler, opts...)
}

func serveOn(t testing.TB, engine Engine, handler http.HandlerFunc, opts ...Option) *service {
	t.Helper()
	s := &service{t: t}
	mw, err := New(engine, opts...)
	if err != nil {
		t.Fatal(err)
	}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.runs.Add(1)
		handler(w, r)
	})
	s.Server = httptest.NewUnstartedServer(mw.Wrap(counted))
	s.Config.ErrorLog = discardLog
	s.Start()
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s
}

// A reply is a response that was read to its end.
type reply struct {
	*http.Response
	body string
	err  error
}

// post sends one request; headers are "Name: value".
func (s *service) post(path, body string, headers ...string) reply {
	s.t.Helper()
	return s.do("POST", path, body, headers...)
}

func (s *service) do(method, path, body string, headers ...string) reply {
	s.t.Helper()
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
	}
	return s.send(r)
}

func (s *service) send(r *http.Request) reply {
	resp, err := s.Client().Do(r)
	if err != nil {
		return reply{Response: &http.Response{Header: http.Header{}}, err: err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return reply{resp, string(text), err}
}

// want checks status and replay marker.
func (r reply) want(t testing.TB, status int, replayed bool) {
	t.Helper()
	if r.err != nil {
		t.Fatalf("request failed: %v", r.err)
	}
	if r.StatusCode != status || (r.Header.Get(ReplayedHeader) == "true") != replayed {
		t.Errorf("got %d, replayed %q; want %d, %v; body %.200s", r.StatusCode, r.Header.Get(ReplayedHeader), status, replayed, r.body)
	}
}

// wantProblem checks a problem by its name.
func (r reply) wantProblem(t testing.TB, status int, name string) {
	t.Helper()
	r.want(t, status, false)
	if !strings.Contains(r.body, `#`+name+`"`) || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %s %s, want problem %s", r.Header.Get("Content-Type"), r.body, name)
	}
}

func (s *service) wantRuns(n int64) {
	s.t.Helper()
	if got := s.runs.Load(); got != n {
		s.t.Errorf("the handler ran %d times, want %d", got, n)
	}
}

// A gate holds handlers until it is opened.
type gate struct {
	arrived chan struct{}
	open    chan struct{}
	once    sync.Once
}

func newGate(t testing.TB) *gate {
	g := &gate{arrived: make(chan struct{}, 100), open: make(chan struct{})}
	t.Cleanup(g.release)
	return g
}

func (g *gate) wait() {
	g.arrived <- struct{}{}
	<-g.open
}

func (g *gate) release() { g.once.Do(func() { close(g.open) }) }

// serveEngine returns an engine on a ledger in memory.
func serveEngine(t testing.TB) *redfence.Engine {
	t.Helper()
	return newEngine(t, fallback.NewMemory())
}

func newWriter() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// newRequest returns a request as a server gets it.
func newRequest(method, target, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// wantAll checks that one error of one line tells every problem.
func wantAll(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("lacks %q: %s", part, err)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
}
