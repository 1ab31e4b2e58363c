package conformance

import (
	"context"
	"flag"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/redfencehttp"
)

var (
	url    = flag.String("url", "", "run the suite against the server at this address, which has App behind its protection")
	preset = flag.String("preset", "ietf", "what that server does: ietf, stripe or webhook")
)

// noFollow sends what it is told and shows what it gets.
func noFollow() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func TestServer(t *testing.T) {
	if *url == "" {
		t.Skip("no -url given")
	}
	p, ok := Presets[*preset]
	if !ok {
		t.Fatalf("unknown preset %q", *preset)
	}
	Run(t, Target{URL: *url, Client: noFollow(), Preset: p})
}

func TestHandler(t *testing.T) {
	for name, option := range map[string]redfencehttp.Option{
		"ietf": redfencehttp.IETF(), "stripe": redfencehttp.Stripe(), "webhook": redfencehttp.Webhook(),
	} {
		t.Run(name, func(t *testing.T) {
			Run(t, Target{URL: serve(t, option), Client: noFollow(), Preset: Presets[name]})
		})
	}
}

// The suite must see a server that protects nothing.
func TestSuiteCatchesAnUnprotectedServer(t *testing.T) {
	s := httptest.NewServer(App())
	defer s.Close()
	target := Target{URL: s.URL, Client: noFollow(), Preset: Presets["ietf"]}
	for _, c := range Cases(target.Preset) {
		if c.Runs == 2 || len(c.Steps) == 1 && c.Runs == 1 || c.Steps[0].Hold {
			continue // what it does as well; held requests would wait for each other
		}
		if seen := (&verdict{}); !seen.failed(func() { target.run(seen, c) }) {
			t.Errorf("%q passes without any protection", c.Name)
		}
	}
}

// A verdict is a reporter that only notes whether something was reported.
type verdict struct{ bad bool }

func (v *verdict) Helper()               {}
func (v *verdict) Errorf(string, ...any) { v.bad = true }
func (v *verdict) Fatalf(string, ...any) { v.bad = true; runtime.Goexit() }

func (v *verdict) failed(f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	return v.bad
}

func serve(t *testing.T, option redfencehttp.Option) string {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	engine, err := redfence.New(context.Background(), redfence.Config{Nodes: []redis.UniversalClient{client}, Ledger: fallback.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close(context.Background()) })
	mw, err := redfencehttp.New(engine, option, redfencehttp.Unscoped())
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewUnstartedServer(mw.Wrap(App()))
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.Start()
	t.Cleanup(web.Close)
	return web.URL
}
