package redfenceprom_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
	"github.com/redfence/redfence/redfenceprom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var key = observe.RefOf([]byte("a key's digest"))

// filled returns an event of the same type with every field set.
func filled(t *testing.T, e observe.Event) observe.Event {
	t.Helper()
	v := reflect.New(reflect.TypeOf(e)).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch f.Interface().(type) {
		case observe.Ref:
			f.Set(reflect.ValueOf(key))
		case error:
			f.Set(reflect.ValueOf(errors.New("broken")))
		case time.Time:
			f.Set(reflect.ValueOf(time.Unix(1, 0)))
		case []string:
			f.Set(reflect.ValueOf([]string{"a:1", "b:1"}))
		default:
			switch f.Kind() {
			case reflect.String:
				f.SetString("some")
			case reflect.Bool:
				f.SetBool(true)
			case reflect.Int, reflect.Int64:
				f.SetInt(3)
			case reflect.Interface:
				f.Set(reflect.ValueOf(errors.New("broken")))
			default:
				t.Fatalf("%T has a field of kind %v: teach this test", e, f.Kind())
			}
		}
	}
	return v.Interface().(observe.Event)
}

// series returns every series with its value; of a histogram, its count.
func series(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			all[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return all
}

// changes are the series that are new or have another value.
func changes(before, after map[string]float64) map[string]float64 {
	diff := map[string]float64{}
	for name, value := range after {
		if old, ok := before[name]; !ok || old != value {
			diff[name] = value
		}
	}
	return diff
}

func TestEveryEventCounts(t *testing.T) {
	for _, e := range observe.All() {
		c := redfenceprom.New()
		before := series(t, c)
		c.Observe(filled(t, e))
		if len(changes(before, series(t, c))) == 0 {
			t.Errorf("%T changes no metric", e)
		}
	}
}

func TestNames(t *testing.T) {
	c := redfenceprom.New()
	for _, e := range observe.All() {
		c.Observe(filled(t, e))
	}
	problems, err := testutil.CollectAndLint(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for name := range series(t, c) {
		if !strings.HasPrefix(name, "redfence_") && !strings.HasPrefix(name, "idempotency_db_fallback_recovered_total{}") {
			t.Errorf("%s is not under redfence_", name)
		}
	}
}

// Labels take few values: a thousand keys make no series more than one.
func TestKeysAreNoLabels(t *testing.T) {
	allowed := []string{"answer", "end", "node", "outcome", "reason", "result", "route", "start", "state", "to"}
	c := redfenceprom.New()
	var first int
	for n := range 1000 {
		ref := observe.RefOf(fmt.Append(nil, n, " is a key"))
		for _, e := range observe.All() {
			v := reflect.New(reflect.TypeOf(e)).Elem()
			v.Set(reflect.ValueOf(filled(t, e)))
			for _, name := range []string{"Key", "Lock"} {
				if f := v.FieldByName(name); f.IsValid() {
					f.Set(reflect.ValueOf(ref))
				}
			}
			c.Observe(v.Interface().(observe.Event))
		}
		if n == 0 {
			first = len(series(t, c))
		}
	}
	all := series(t, c)
	if len(all) != first {
		t.Errorf("%d series after one key, %d after a thousand", first, len(all))
	}
	for name := range all {
		_, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		for l := range strings.SplitSeq(labels, ",") {
			if n, _, _ := strings.Cut(l, "="); l != "" && !slices.Contains(allowed, n) {
				t.Errorf("%s has the label %s", name, n)
			}
		}
	}
}

func TestWhatCountsWhere(t *testing.T) {
	for _, test := range []struct {
		name   string
		events []observe.Event
		want   map[string]float64
	}{
		{"a replay is a duplicate",
			[]observe.Event{observe.DoFinished{Route: observe.Primary, Outcome: "replayed"}},
			map[string]float64{
				"redfence_requests_total{outcome=replayed,reason=,route=primary}":   1,
				"redfence_request_duration_seconds{outcome=replayed,route=primary}": 1,
				"redfence_duplicates_total{answer=replayed}":                        1,
			}},
		{"a handler's error is none",
			[]observe.Event{observe.DoFinished{Route: observe.Fallback, Outcome: "executed", Reason: "handler"}},
			map[string]float64{
				"redfence_requests_total{outcome=executed,reason=handler,route=fallback}": 1,
				"redfence_request_duration_seconds{outcome=executed,route=fallback}":      1,
			}},
		{"one in progress is",
			[]observe.Event{observe.DoFinished{Outcome: "error", Reason: "in_progress"}},
			map[string]float64{
				"redfence_requests_total{outcome=error,reason=in_progress,route=}": 1,
				"redfence_request_duration_seconds{outcome=error,route=}":          1,
				"redfence_duplicates_total{answer=in_progress}":                    1,
			}},
		{"claims in flight",
			[]observe.Event{
				observe.ClaimGranted{Route: observe.Primary, Attempt: 1}, observe.ClaimGranted{Route: observe.Primary, Attempt: 2, TakenOver: true},
				observe.ClaimEnded{Result: "refused"},
			},
			map[string]float64{
				"redfence_claims_total{route=primary,start=first}":     1,
				"redfence_claims_total{route=primary,start=takeover}":  1,
				"redfence_claims_in_flight{}":                          1,
				"redfence_claim_hold_duration_seconds{result=refused}": 1,
				"redfence_fence_rejections_total{}":                    1,
			}},
		{"the completer's queue",
			[]observe.Event{observe.HandedOver{}, observe.HandedOver{}, observe.LateCompletion{Result: "completed"}},
			map[string]float64{
				"redfence_completer_queue{}":                        1,
				"redfence_late_completions_total{result=completed}": 1,
			}},
		{"the route",
			[]observe.Event{
				observe.RouteChanged{From: observe.Primary, To: observe.Fallback}, observe.BreakerChanged{From: "closed", To: "open"},
			},
			map[string]float64{
				"redfence_route{route=primary}":             0,
				"redfence_route{route=fallback}":            1,
				"redfence_route_changes_total{to=fallback}": 1,
				"redfence_breaker_state{state=closed}":      0,
				"redfence_breaker_state{state=open}":        1,
			}},
		{"nodes",
			[]observe.Event{
				observe.EngineStarted{Nodes: []string{"a:1", "b:1", "c:1"}, Quorum: 2}, observe.NodeDown{Node: "b:1"},
				observe.NodeDown{Node: "c:1"}, observe.NodeUp{Node: "c:1"},
			},
			map[string]float64{
				"redfence_quorum_size{}":                2,
				"redfence_node_up{node=a:1}":            1,
				"redfence_node_up{node=b:1}":            0,
				"redfence_node_up{node=c:1}":            1,
				"redfence_node_outages_total{node=a:1}": 0,
				"redfence_node_outages_total{node=b:1}": 1,
				"redfence_node_outages_total{node=c:1}": 1,
			}},
		{"locks",
			[]observe.Event{
				observe.LockAcquired{Took: time.Second}, observe.LockAcquired{}, observe.LockRefused{Reason: "taken"},
				observe.LockReleased{Held: time.Second},
			},
			map[string]float64{
				"redfence_locks_held{}":                                   1,
				"redfence_lock_acquire_duration_seconds{result=acquired}": 2,
				"redfence_lock_acquire_duration_seconds{result=taken}":    1,
				"redfence_lock_hold_duration_seconds{end=released}":       1,
			}},
		{"sweeps",
			[]observe.Event{observe.LedgerSwept{Rows: 7}, observe.LedgerSwept{Err: errors.New("no")}},
			map[string]float64{
				"redfence_ledger_sweeps_total{result=ok}":               1,
				"redfence_ledger_sweeps_total{result=failed}":           1,
				"redfence_ledger_sweep_duration_seconds{result=ok}":     1,
				"redfence_ledger_sweep_duration_seconds{result=failed}": 1,
				"redfence_ledger_swept_rows_total{}":                    7,
			}},
	} {
		c := redfenceprom.New()
		before := series(t, c)
		for _, e := range test.events {
			c.Observe(e)
		}
		if diff := cmp.Diff(test.want, changes(before, series(t, c))); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
	}
}

// A real engine's events end up in the metrics.
func TestEngine(t *testing.T) {
	clients, err := lock.Dial("redis://" + miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer clients[0].Close()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	c := redfenceprom.New()
	engine, err := redfence.New(ctx, redfence.Config{Nodes: clients, Ledger: fallback.NewMemory(), Observer: c})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, err := engine.Do(ctx, redfence.Request{ID: "tx-1"}, func(context.Context, *redfence.Execution) (redfence.Response, error) {
			return redfence.Response{Status: 201}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := engine.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got := series(t, c)
	for name, want := range map[string]float64{
		"redfence_requests_total{outcome=executed,reason=,route=primary}": 1,
		"redfence_requests_total{outcome=replayed,reason=,route=primary}": 2,
		"redfence_duplicates_total{answer=replayed}":                      2,
		"redfence_claims_total{route=primary,start=first}":                1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	c := redfenceprom.New()
	e := observe.Event(observe.DoFinished{Route: observe.Primary, Outcome: "executed", Took: time.Millisecond})
	b.ReportAllocs()
	for b.Loop() {
		c.Observe(e)
	}
}

// What begins ends: after an engine is closed, nothing is in flight.
func TestGaugesReturnToZero(t *testing.T) {
	clients, err := lock.Dial("redis://" + miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer clients[0].Close()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	c := redfenceprom.New()
	engine, err := redfence.New(ctx, redfence.Config{Nodes: clients, Ledger: fallback.NewMemory(), Observer: c})
	if err != nil {
		t.Fatal(err)
	}
	failure := errors.New("failed")
	handlers := []func() (redfence.Response, error){
		func() (redfence.Response, error) { return redfence.Response{Status: 201}, nil },
		func() (redfence.Response, error) { return redfence.Response{}, failure },
		func() (redfence.Response, error) { return redfence.Response{}, redfence.Undone(failure) },
		func() (redfence.Response, error) { return redfence.Response{}, redfence.Store(failure) },
		func() (redfence.Response, error) { panic("on purpose") },
	}
	during := -1.0
	for n, fn := range handlers {
		func() {
			defer func() { _ = recover() }() // the panic of the last one
			_, _ = engine.Do(ctx, redfence.Request{ID: fmt.Sprint(n)}, func(context.Context, *redfence.Execution) (redfence.Response, error) {
				during = series(t, c)["redfence_claims_in_flight{}"]
				return fn()
			})
		}()
	}
	lease, err := engine.Acquire(ctx, "a lock")
	if err != nil {
		t.Fatal(err)
	}
	held := series(t, c)["redfence_locks_held{}"]
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
	if err := engine.Close(ctx); err != nil {
		t.Fatal(err)
	}
	got := series(t, c)
	for name, want := range map[string]float64{
		"redfence_claims_in_flight{}":                                            0,
		"redfence_locks_held{}":                                                  0,
		"redfence_completer_queue{}":                                             0,
		"redfence_quorum_size{}":                                                 1,
		"redfence_claim_hold_duration_seconds{result=completed}":                 2,
		"redfence_claim_hold_duration_seconds{result=unknown}":                   2,
		"redfence_claim_hold_duration_seconds{result=released}":                  2, // the lock's claim is one
		"redfence_lock_acquire_duration_seconds{result=acquired}":                1,
		"redfence_lock_hold_duration_seconds{end=released}":                      1,
		"redfence_requests_total{outcome=executed,reason=handler,route=primary}": 3,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if during != 1 || held != 1 {
		t.Errorf("in flight during a handler: %v; locks held: %v", during, held)
	}
}
