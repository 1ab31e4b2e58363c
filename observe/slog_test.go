package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/observe"
)

var digest = observe.RefOf([]byte{0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8})

// logged returns the line that an event becomes, without its time.
func logged(t *testing.T, e observe.Event) map[string]any {
	t.Helper()
	var out bytes.Buffer
	handler := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	observe.NewSlog(slog.New(handler)).Observe(e)
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Fatalf("%T became %d lines", e, n)
	}
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	delete(line, slog.TimeKey)
	return line
}

func TestSlogLines(t *testing.T) {
	for _, test := range []struct {
		event observe.Event
		want  map[string]any
	}{
		{
			observe.RouteChanged{From: observe.Primary, To: observe.Fallback, Reason: "no quorum", For: time.Second},
			map[string]any{"level": "WARN", "msg": "route_changed", "from": "primary", "to": "fallback", "reason": "no quorum", "for": 1e9},
		},
		{
			observe.ClaimGranted{Key: digest, Route: observe.Primary, Fence: 7, Attempt: 2, TakenOver: true},
			map[string]any{"level": "DEBUG", "msg": "claim_granted", "key": "abcd010203040506", "route": "primary", "fence": 7.0, "attempt": 2.0, "taken_over": true},
		},
		{
			observe.CanaryProbed{Took: time.Millisecond, Err: errors.New("two\nlines")},
			map[string]any{"level": "DEBUG", "msg": "canary_probed", "ok": false, "took": 1e6, "err": "two\nlines"},
		},
		{
			observe.EngineStarted{Nodes: []string{"a:1", "b:1", "c:1"}, Quorum: 2},
			map[string]any{"level": "INFO", "msg": "engine_started", "nodes": "a:1,b:1,c:1", "quorum": 2.0},
		},
		{
			observe.OutcomeUnknown{Key: digest, Fence: 7, Reason: "the handler failed: card 4711 refused"},
			map[string]any{"level": "WARN", "msg": "outcome_unknown", "key": "abcd010203040506", "fence": 7.0, "reason": "the handler failed"},
		},
		{
			observe.DoFinished{Key: digest, Outcome: "error", Reason: "handler", Err: errors.New("card 4711 refused")},
			map[string]any{"level": "DEBUG", "msg": "do_finished", "key": "abcd010203040506", "outcome": "error", "reason": "handler", "durable": false, "took": 0.0},
		},
	} {
		if diff := cmp.Diff(test.want, logged(t, test.event)); diff != "" {
			t.Errorf("%T: %s", test.event, diff)
		}
	}
}

func TestSlogLevels(t *testing.T) {
	bad := errors.New("bad")
	warn := []observe.Event{
		observe.RouteChanged{}, observe.ClaimLost{}, observe.NotDurable{}, observe.OutcomeUnknown{},
		observe.ClaimEnded{Result: "refused"}, observe.LateCompletion{Result: "refused"}, observe.LateCompletion{Result: "abandoned"},
		observe.LedgerSwept{Err: bad}, observe.RecoveryAsked{Err: bad}, observe.EventsDropped{Count: 1},
	}
	for _, e := range warn {
		if got := logged(t, e)["level"]; got != "WARN" {
			t.Errorf("%#v has level %v", e, got)
		}
	}
	perRequest := []observe.Event{
		observe.DoFinished{}, observe.ClaimGranted{}, observe.ClaimEnded{Result: "completed"}, observe.CacheRead{}, observe.CachePut{},
		observe.LockAcquired{}, observe.LockReleased{}, observe.LockRefused{}, observe.LedgerSwept{},
	}
	for _, e := range perRequest {
		if got := logged(t, e)["level"]; got != "DEBUG" {
			t.Errorf("%#v has level %v", e, got)
		}
	}
}

func TestSlogKnowsEveryEvent(t *testing.T) {
	for _, e := range observe.All() {
		if got := logged(t, e)["msg"]; got != e.Name() {
			t.Errorf("%T has the message %v", e, got)
		}
	}
}

// count counts the lines that would be written, and is asked for no more.
type count struct {
	slog.Handler
	level slog.Level
	lines int
}

func (c *count) Enabled(_ context.Context, l slog.Level) bool { return l >= c.level }
func (c *count) Handle(context.Context, slog.Record) error    { c.lines++; return nil }

func TestSlogAsksForTheLevelFirst(t *testing.T) {
	h := &count{level: slog.LevelWarn}
	o := observe.NewSlog(slog.New(h))
	o.Observe(observe.DoFinished{})
	o.Observe(observe.NotDurable{})
	if h.lines != 1 {
		t.Errorf("%d lines, want 1", h.lines)
	}
}
