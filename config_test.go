package redfence

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/fallback"
)

// deadNodes are clients of addresses where nothing listens.
func deadNodes(t *testing.T, addrs ...string) []redis.UniversalClient {
	t.Helper()
	var list []redis.UniversalClient
	for _, addr := range addrs {
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { client.Close() })
		list = append(list, client)
	}
	return list
}

func TestNewReportsAllProblems(t *testing.T) {
	sloppy := redis.NewClient(&redis.Options{Addr: "127.0.0.1:3"})
	t.Cleanup(func() { sloppy.Close() })
	two := deadNodes(t, "127.0.0.1:1", "127.0.0.1:2")
	tests := []struct {
		name string
		cfg  Config
		want []string
	}{
		{"nothing", Config{}, []string{"Nodes: none", "Ledger: none"}},
		{"an even number", Config{Nodes: two, Ledger: fallback.NewMemory()}, []string{"Nodes: 2 is even"}},
		{"a node twice, and an even number", Config{Nodes: append(deadNodes(t, "127.0.0.1:1"), two[0]), Ledger: fallback.NewMemory()},
			[]string{"Nodes: 2 is even", "127.0.0.1:1"}},
		{"a client that ignores contexts and retries", Config{Nodes: []redis.UniversalClient{sloppy}, Ledger: fallback.NewMemory()},
			[]string{"ContextTimeoutEnabled", "MaxRetries"}},
		{"everything else", Config{
			Nodes: two, LedgerTimeout: -1, MaxResponse: -1, Seal: true,
			Secrets: []Secret{{ID: 0, Key: []byte("short")}},
			Policy:  Policy{Lease: time.Millisecond, MaxAttempts: -1, Retention: -1, OnAbandoned: 9, OnPanic: ErrorStores},
		}, []string{"Nodes: 2 is even", "Ledger: none", "LedgerTimeout", "MaxResponse", "Secrets", "Policy.Lease is 1ms",
			"Policy.MaxAttempts", "Policy.Retention", "Policy.OnAbandoned", "Policy.OnPanic"}},
		{"a lease longer than the processing time", Config{Nodes: two[:1], Ledger: fallback.NewMemory(),
			Policy: Policy{Lease: time.Minute, MaxProcessing: time.Second}}, []string{"MaxProcessing is 1s, less than Lease 1m0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(t.Context(), tt.cfg)
			if err == nil {
				t.Fatal("no error")
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q\ndoes not say %q", err, want)
				}
			}
		})
	}
}

func TestNewSucceedsWithEveryNodeDown(t *testing.T) {
	engine, err := New(t.Context(), Config{Nodes: deadNodes(t, "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"), Ledger: fallback.NewMemory()})
	must(t, err)
	defer engine.Close(context.Background())
	var work counter
	for i := range 10 {
		res, err := engine.Do(t.Context(), Request{ID: "k"}, work.handle)
		if err != nil || string(res.Response.Body) != "run 1" {
			t.Fatalf("call %d: %q %v", i, res.Response.Body, err)
		}
	}
	work.want(t, 1)
}

func TestRequestsAreChecked(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	ok := new(counter).handle
	for name, call := range map[string]func() error{
		"no id":      func() error { _, err := engine.Do(t.Context(), Request{}, ok); return err },
		"no handler": func() error { _, err := engine.Do(t.Context(), Request{ID: "k"}, nil); return err },
		"a poor policy": func() error {
			_, err := engine.Do(t.Context(), Request{ID: "k", Policy: &Policy{Lease: 1}}, ok)
			return err
		},
		"a poor word": func() error { return engine.Resolve(t.Context(), Key{ID: "k"}, Resolution{Who: "me"}) },
		"not unknown": func() error {
			return engine.Resolve(t.Context(), Key{ID: "k"}, Resolution{Release: true, Who: "me", Why: "test"})
		},
	} {
		t.Run(name, func(t *testing.T) { wantErr(t, call(), ErrInvalid) })
	}
}

// newMemoryEngine is an engine in one process, without Redis and Postgres.
func newMemoryEngine(t testing.TB, change func(*Config)) *Engine {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	cfg := Config{Nodes: []redis.UniversalClient{client}, Ledger: fallback.NewMemory(), Policy: testPolicy()}
	if change != nil {
		change(&cfg)
	}
	engine, err := New(context.Background(), cfg)
	must(t, err)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		if err := engine.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		client.Close()
	})
	return engine
}

func TestOtherNodesAreNoticed(t *testing.T) {
	ledger := fallback.NewMemory()
	start := func(what OtherNodes, addrs ...string) (*recorder, error) {
		events := &recorder{}
		engine, err := New(t.Context(), Config{Nodes: deadNodes(t, addrs...), Ledger: ledger, OnOtherNodes: what, Observer: events})
		if err == nil {
			must(t, engine.Close(t.Context()))
		}
		return events, err
	}
	three := []string{"127.0.0.1:3", "127.0.0.1:1", "127.0.0.1:2"}
	five := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5"}
	steps := []struct {
		name  string
		what  OtherNodes
		nodes []string
		warns int
		fails bool
	}{
		{"the first engine records its nodes", RefuseOtherNodes, three, 0, false},
		{"the same in another order", RefuseOtherNodes, []string{three[1], three[0], three[2]}, 0, false},
		{"others, warn", WarnOfOtherNodes, five, 1, false},
		{"others, refuse", RefuseOtherNodes, five, 0, true},
		{"a declared migration", MoveToNodes, five, 0, false},
		{"an instance that is still to roll", WarnOfOtherNodes, three, 1, false},
		{"all rolled", RefuseOtherNodes, five, 0, false},
	}
	for _, s := range steps {
		events, err := start(s.what, s.nodes...)
		if (err != nil) != s.fails || events.count("node_set_differs") != s.warns {
			t.Errorf("%s: %v, %d warnings", s.name, err, events.count("node_set_differs"))
		}
	}
}
