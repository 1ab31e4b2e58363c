package observe_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

// What must never be in a log. The key is short enough to be quoted whole
// where the beginning of a key is quoted.
const (
	secretID    = "id-4711"
	secretScope = "scope-4712"
	secretText  = "text-4713" // of a handler's error
	secretBody  = "body-4714"
)

// The log of an engine that goes through hits, misses, failures, panics and
// locks, on both routes, names no key, scope, body or handler's words.
func TestLogsNameNoKeys(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	logs := observe.NewFanout(0, observe.NewSlog(slog.New(handler)))
	redis := miniredis.RunT(t)
	live(t, "redis://"+redis.Addr(), logs)
	live(t, "redis://127.0.0.1:1", logs) // nobody listens there
	closeNow(t, logs)
	if logs.Dropped() > 0 {
		t.Fatal("the log is not whole")
	}
	text := out.String()
	for _, must := range []string{"do_finished", "claim_granted", "outcome_unknown", "cache_read", "route_changed"} {
		if !strings.Contains(text, `"msg":"`+must+`"`) {
			t.Errorf("the engine has not sent %s: the test shows less than it says", must)
		}
	}
	for _, secret := range []string{secretID, secretScope, secretText, secretBody} {
		for line := range strings.Lines(text) {
			if strings.Contains(line, secret) {
				t.Errorf("a line says %q: %s", secret, line)
			}
		}
	}
}

// live makes an engine do what engines do.
func live(t *testing.T, node string, o observe.Observer) {
	t.Helper()
	clients, err := lock.Dial(node)
	if err != nil {
		t.Fatal(err)
	}
	defer clients[0].Close()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	eng, err := redfence.New(ctx, redfence.Config{Nodes: clients, Ledger: fallback.NewMemory(), Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := eng.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	do := func(suffix string, fn func() (redfence.Response, error)) {
		req := redfence.Request{Scope: secretScope, ID: secretID + suffix}
		for range 3 {
			func() {
				defer func() { _ = recover() }() // the panic is the test's own
				_, _ = eng.Do(ctx, req, func(context.Context, *redfence.Execution) (redfence.Response, error) { return fn() })
			}()
		}
	}
	do("a", func() (redfence.Response, error) {
		return redfence.Response{Status: 200, Body: []byte(secretBody), Header: map[string][]string{"X": {secretBody}}}, nil
	})
	failed := errors.New(secretText)
	do("b", func() (redfence.Response, error) { return redfence.Response{}, failed })
	do("c", func() (redfence.Response, error) { return redfence.Response{}, redfence.Undone(failed) })
	do("d", func() (redfence.Response, error) { return redfence.Response{}, redfence.Store(failed) })
	do("e", func() (redfence.Response, error) { panic(secretText) })
	lease, err := eng.TryAcquire(ctx, secretID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eng.TryAcquire(ctx, secretID); !errors.Is(err, lock.ErrTaken) {
		t.Errorf("got %v", err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
}
