package gateway

import (
	"context"
	"encoding/base64"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
)

var quiet = log.New(io.Discard, "", 0)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEngine returns an engine on one Redis node and a ledger, both in memory.
func newEngine(t testing.TB) *redfence.Engine {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	engine, err := redfence.New(context.Background(), redfence.Config{
		Nodes: []redis.UniversalClient{client}, Ledger: fallback.NewMemory(),
	})
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
	return engine
}

// start serves a gateway on a real socket with the servers's own time-outs.
func start(t testing.TB, cfg Config) *httptest.Server {
	t.Helper()
	if cfg.Engine == nil {
		cfg.Engine = newEngine(t)
	}
	transport := NewTransport()
	t.Cleanup(transport.CloseIdleConnections)
	cfg.Transport = transport
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(nil)
	s.Config = NewServer(h, 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// upstream serves a handler.
func upstream(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

type reply struct {
	*http.Response
	body string
}

func post(t testing.TB, url, body string, headers ...string) reply {
	t.Helper()
	r, err := http.NewRequest("POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	return send(t, http.DefaultClient, r)
}

func send(t testing.TB, client *http.Client, r *http.Request) reply {
	t.Helper()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	client.CloseIdleConnections()
	return reply{resp, string(text)}
}

func encode(b []byte) string { return base64.RawStdEncoding.EncodeToString(b) }
