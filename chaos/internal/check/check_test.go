package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/chaos/internal/history"
)

const second = time.Second

// good is the history of a run in which nothing went wrong: one node dies at
// 10 s and is back at 20 s, a key each 100 ms until 30 s, each asked for again
// 5 s later and at the end.
func good() *history.History {
	h := &history.History{
		Setup: history.Setup{Nodes: 1, Instances: 1, Preset: "quick", Policy: "hold"},
		Faults: []history.Fault{
			{At: 10 * second, Done: 10 * second, Action: history.Action{Kind: history.KillNode}, Proof: "dead"},
			{At: 20 * second, Done: 20 * second, Action: history.Action{Kind: history.RestartNode}, Proof: "alive"},
		},
		Healed: 20 * second,
	}
	for i := range 300 {
		at := time.Duration(i) * second / 10
		key := fmt.Sprintf("k%03d", i)
		add(h, history.Fresh, key, at, int64(i+1))
		replay(h, history.Late, key, at+5*second)
		replay(h, history.Final, key, 40*second)
	}
	add(h, history.Probe, "probe", 21*second, 999)
	return h
}

// add is a key that is begun and answered at once.
func add(h *history.History, kind, key string, at time.Duration, fence int64) {
	route := "primary"
	if at >= 10*second && at < 20*second {
		route = "fallback"
	}
	for _, k := range []string{history.Start, history.Done, history.End} {
		h.Effects = append(h.Effects, history.Effect{At: at, Kind: k, Key: key, Execution: "x" + key, Fence: fence, Attempt: 1, Route: route, Instance: "instance-0"})
	}
	h.Ops = append(h.Ops, answer(kind, key, at))
	h.Rows = append(h.Rows, history.Row{Key: key, State: "completed", Fence: fence})
}

func answer(kind, key string, at time.Duration) history.Op {
	return history.Op{
		Kind: kind, Key: key, Sent: at, Got: at + 10*time.Millisecond, Status: 200, Durable: true,
		Body: "response of " + key, Execution: "x" + key,
	}
}

func replay(h *history.History, kind, key string, at time.Duration) {
	op := answer(kind, key, at)
	op.Replayed = true
	h.Ops = append(h.Ops, op)
}

// op returns the op of a key and kind, to be changed.
func op(h *history.History, key, kind string) *history.Op {
	i := slices.IndexFunc(h.Ops, func(o history.Op) bool { return o.Key == key && o.Kind == kind })
	return &h.Ops[i]
}

func row(h *history.History, key string) *history.Row {
	i := slices.IndexFunc(h.Rows, func(r history.Row) bool { return r.Key == key })
	return &h.Rows[i]
}

// begunInOutage reports whether a request belongs to a key that was first sent
// in the outage.
func begunInOutage(o history.Op) bool { return o.Key >= "k100" && o.Key < "k200" }

func without[T any](items []T, drop func(T) bool) []T { return slices.DeleteFunc(items, drop) }

func TestGoodRunIsFine(t *testing.T) {
	r := Judge(good())
	if r.Class() != Fine {
		t.Errorf("%s: %+v", r.Class(), r.Violations)
	}
	f := r.Figures
	if len(f.Seconds) < 40 || f.Seconds[10].Fallback != 10 || f.Seconds[9].Primary != 10 || f.Seconds[3].Served != 10 {
		t.Errorf("seconds: %+v", f.Seconds)
	}
	f.Outages, f.Normal, f.Outage, f.Seconds = nil, Latency{}, Latency{}, nil
	ten := Latency{1, 10 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond}
	want := Figures{
		Keys: 301, Requests: 901, Answered: 901, Replays: 600, Acknowledged: 301, Kills: 1, Broken: map[string]int{history.KillNode: 1}, Faults: 2,
		Primary: 201, Fallback: 100, Back: []time.Duration{second + 10*time.Millisecond},
		Holds:        map[string]int{},
		Recovery:     Recovery{Outages: 1, Served: ten, Primary: Latency{Count: 1}},
		Availability: Availability{Requests: 90, Served: 90},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	wantOutage := []Outage{{From: 10 * second, To: 20 * second, Fresh: 100, Served: 100, Asked: 50, Replayed: 50}}
	if diff := cmp.Diff(wantOutage, r.Figures.Outages); diff != "" {
		t.Errorf("outages (-want +got):\n%s", diff)
	}
}

// TestEachFaultOfTheEngineIsFound breaks the good history in one way each.
func TestEachFaultOfTheEngineIsFound(t *testing.T) {
	const key = "k042"
	for _, c := range []struct {
		check string
		class Class
		spoil func(h *history.History)
	}{
		{"double start", Safety, func(h *history.History) {
			h.Effects = append(h.Effects, history.Effect{At: 15 * second, Kind: history.Start, Key: key, Execution: "other", Fence: 5000})
		}},
		{"fence order", Safety, func(h *history.History) {
			h.Effects = append(h.Effects, history.Effect{At: 15 * second, Kind: history.Start, Key: key, Execution: "other", Fence: 43})
		}},
		{"answers differ", Safety, func(h *history.History) { op(h, key, history.Late).Body = "another" }},
		{"answers differ", Safety, func(h *history.History) { op(h, key, history.Final).Status = 201 }},
		{"answer without effect", Safety, func(h *history.History) {
			h.Effects = without(h.Effects, func(e history.Effect) bool { return e.Key == key && e.Kind == history.Done })
		}},
		{"answer without effect", Safety, func(h *history.History) { op(h, key, history.Fresh).Execution = "unheard of" }},
		{"refused after an answer", Safety, func(h *history.History) { op(h, key, history.Late).Status = 409 }},
		{"refused after an answer", Safety, func(h *history.History) {
			o := op(h, key, history.Fresh)
			o.Got += second // the owner's own answer; it refuses another before that
			replayed := answer(history.Duplicate, key, o.Sent)
			replayed.Instance, replayed.Replayed = 1, true
			refused := history.Op{Kind: history.Duplicate, Key: key, Sent: replayed.Got + second/2, Got: replayed.Got + second/2, Status: 409}
			h.Ops = append(h.Ops, replayed, refused)
		}},
		{"answer lost", Safety, func(h *history.History) { op(h, key, history.Final).Status = 404 }},
		{"not in the ledger", Safety, func(h *history.History) {
			h.Rows = without(h.Rows, func(r history.Row) bool { return r.Key == key })
		}},
		{"not in the ledger", Safety, func(h *history.History) { row(h, key).State = "released" }},
		{"unsettled key", Liveness, func(h *history.History) {
			h.Rows = append(h.Rows, history.Row{Key: "stuck", State: "processing"})
			h.Ops = append(h.Ops, history.Op{Kind: history.Fresh, Key: "stuck", Sent: second, Got: 2 * second, Status: 409})
		}},
		{"never answered", Liveness, func(h *history.History) {
			h.Ops = append(h.Ops, history.Op{Kind: history.Fresh, Key: "stuck", Sent: second, Got: 2 * second, Status: 503})
		}},
		{"answer not available", Liveness, func(h *history.History) { op(h, key, history.Final).Status = 503 }},
		{"not back", Liveness, func(h *history.History) { op(h, "probe", history.Probe).Got = 36 * second }},
		{"not back", Liveness, func(h *history.History) {
			h.Effects[len(h.Effects)-3].Route = "fallback"
		}},
		{"outage not served", Liveness, func(h *history.History) {
			for i, o := range h.Ops {
				if begunInOutage(o) {
					h.Ops[i].Got = 21 * second
				}
			}
		}},
		{"outage without replays", Liveness, func(h *history.History) {
			for i, o := range h.Ops {
				if o.Kind == history.Late && o.Sent >= 10*second && o.Sent < 20*second {
					h.Ops[i].Status = 503
				}
			}
		}},
		{"key not asked again", Invalid, func(h *history.History) {
			h.Ops = without(h.Ops, func(o history.Op) bool { return o.Key == key && o.Kind == history.Final })
		}},
		{"outage without fresh keys", Invalid, func(h *history.History) {
			h.Ops = without(h.Ops, begunInOutage)
		}},
		{"outage without retries", Invalid, func(h *history.History) {
			h.Ops = without(h.Ops, func(o history.Op) bool { return o.Sent >= 10*second && o.Sent < 20*second && o.Kind == history.Late })
		}},
		{"fault not proven", Invalid, func(h *history.History) { h.Faults[0].Proof = "" }},
		{"no faults", Invalid, func(h *history.History) { h.Faults = nil }},
		{"no outage of all nodes", Invalid, func(h *history.History) { h.Setup.Nodes = 3 }},
		{"load too low", Invalid, func(h *history.History) {
			h.Ops = without(h.Ops, func(o history.Op) bool { return o.Sent < 10*second })
		}},
	} {
		t.Run(c.check, func(t *testing.T) {
			h := good()
			c.spoil(h)
			r := Judge(h)
			if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Check == c.check && v.Class == c.class }) {
				t.Errorf("not found: %+v", r.Violations)
			}
			if r.Class() == Fine {
				t.Error("the verdict is fine")
			}
		})
	}
}

func TestWhatIsNoFaultIsNotReported(t *testing.T) {
	for name, change := range map[string]func(h *history.History){
		"an answer marked as not durable may differ": func(h *history.History) {
			o := answer(history.Fresh, "k042", 4*second)
			o.Durable, o.Body = false, "first"
			h.Ops = append(h.Ops, o)
		},
		"in progress before the answer": func(h *history.History) {
			h.Ops = append(h.Ops, history.Op{Kind: history.Duplicate, Key: "k042", Sent: 4200 * time.Millisecond, Got: 4205 * time.Millisecond, Status: 409})
		},
		"unavailable after the answer": func(h *history.History) { op(h, "k042", history.Late).Status = 503 },
		"no answer at all, then one":   func(h *history.History) { op(h, "k042", history.Late).Status = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			h := good()
			change(h)
			if r := Judge(h); r.Class() != Fine {
				t.Errorf("%+v", r.Violations)
			}
		})
	}
}

func TestSafetyOutweighsTheRig(t *testing.T) {
	r := Result{Violations: []Violation{{Class: Liveness}, {Class: Invalid}}}
	if r.Class() != Invalid {
		t.Errorf("liveness and an invalid rig: %v", r.Class())
	}
	r.Violations = append(r.Violations, Violation{Class: Safety})
	if r.Class() != Safety {
		t.Errorf("and safety: %v", r.Class())
	}
}

func TestLatencyTakesTheNearestRank(t *testing.T) {
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i))
	}
	if diff := cmp.Diff(Latency{Count: 200, P50: 100, P99: 198, Max: 200}, latencyOf(all)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Latency{Count: 1, P50: 7, P99: 7, Max: 7}, latencyOf([]time.Duration{7})); diff != "" {
		t.Error(diff)
	}
}

// TestKindsNameEveryCheck reads what the checks report from their source.
func TestKindsNameEveryCheck(t *testing.T) {
	known := map[Kind]bool{}
	for _, k := range Kinds() {
		known[Kind{Name: k.Name, Class: k.Class}] = true
	}
	classes := map[string]Class{"Safety": Safety, "Liveness": Liveness, "Invalid": Invalid}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`j\.report(?:At)?\((?:[^,"]+, )?(\w+), "([^"]+)"`).FindAllSubmatch(text, -1) {
			found++
			if !known[Kind{Name: string(m[2]), Class: classes[string(m[1])]}] {
				t.Errorf("%s reports %s as %s, which Kinds does not name", file, m[2], m[1])
			}
		}
		for _, m := range regexp.MustCompile(`j\.search\("([^"]+)"`).FindAllSubmatch(text, -1) {
			found++
			if !known[Kind{Name: string(m[1]), Class: Safety}] {
				t.Errorf("%s searches for %s, which Kinds does not name", file, m[1])
			}
		}
	}
	if found < len(known) {
		t.Errorf("%d reports in the source, %d kinds", found, len(known))
	}
}
