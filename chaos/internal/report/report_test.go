package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/history"
)

func sample() *history.History {
	return &history.History{
		Setup: history.Setup{Preset: "quick", Seed: 7, Duration: time.Minute, Nodes: 5, Instances: 3},
		Ops: []history.Op{
			{Kind: history.Fresh, Key: "k", Sent: time.Second, Got: 2 * time.Second, Status: 200, Body: "one"},
			{Kind: history.Late, Key: "k", Instance: 1, Sent: 4 * time.Second, Got: 5 * time.Second, Err: "EOF"},
			{Kind: history.Fresh, Key: "other", Sent: time.Second, Got: 2 * time.Second, Status: 200},
		},
		Effects: []history.Effect{{At: 1500 * time.Millisecond, Kind: history.Start, Key: "k", Execution: "x", Fence: 3, Instance: "instance-0", Route: "primary"}},
		Faults: []history.Fault{
			{At: 3 * time.Second, Action: history.Action{Kind: history.KillNode, Node: 4}},
			{At: 9 * time.Second, Action: history.Action{Kind: history.KillNode, Node: 1}},
		},
	}
}

func text(t *testing.T, r Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Text(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestVerdictNamesClassAndCode(t *testing.T) {
	violation := func(class check.Class) check.Result {
		return check.Result{Violations: []check.Violation{{Class: class}}}
	}
	for _, c := range []struct {
		result    check.Result
		mutant    string
		rehearsal bool
		want      string
		code      int
	}{
		{result: check.Result{}, want: "fine (0)", code: 0},
		{result: violation(check.Safety), want: "safety (1)", code: 1},
		{result: violation(check.Liveness), want: "liveness (2)", code: 2},
		{result: violation(check.Invalid), want: "rig invalid (3)", code: 3},
		{result: check.Result{}, mutant: "m", want: "mutant survived (4)", code: 4},
		{result: violation(check.Safety), mutant: "m", want: "safety (1)", code: 1},
		{result: check.Result{}, rehearsal: true, want: "REHEARSAL fine (0)", code: 0},
	} {
		h := sample()
		h.Setup.Mutant, h.Setup.Rehearsal = c.mutant, c.rehearsal
		r := New(h, c.result, "")
		if r.Verdict != c.want || r.Code != c.code {
			t.Errorf("verdict %q, code %d; want %q, %d", r.Verdict, r.Code, c.want, c.code)
		}
		if got := text(t, r); !strings.HasSuffix(got, "\nverdict: "+c.want+"\n") {
			t.Errorf("the text ends with %q", got[max(0, len(got)-40):])
		}
	}
}

func TestFirstViolationComesWithItsStory(t *testing.T) {
	var found []check.Violation
	for range shownViolations + 3 {
		found = append(found, check.Violation{Class: check.Safety, Check: "double start", Key: "k", What: "2 starts"})
	}
	got := text(t, New(sample(), check.Result{Violations: found}, "somewhere"))
	_, got, _ = strings.Cut(got, "SAFETY: ")
	want := `double start k: 2 starts
        1.000s client  fresh to instance-0: 200 one after 1s
        1.500s effect  start on instance-0, primary route, fence 3, execution x
        3.000s fault   kill-node 4
        4.000s client  late to instance-1: EOF after 1s
SAFETY: double start k: 2 starts
SAFETY: double start k: 2 starts
SAFETY: double start k: 2 starts
SAFETY: double start k: 2 starts
SAFETY: 3 more, see report.json

again: go run ./chaos -preset quick -seed 7 -duration 1m -nodes 5 -instances 3
report: somewhere, with report.html, report.json, junit.xml
verdict: safety (1)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONHoldsTheVerdictAndTheFigures(t *testing.T) {
	r := New(sample(), check.Result{Figures: check.Figures{Keys: 2}}, "somewhere")
	var b bytes.Buffer
	if err := r.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got Report
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Verdict != "fine (0)" || got.Result.Figures.Keys != 2 || got.Setup.Seed != 7 || got.Dir != "somewhere" {
		t.Errorf("%+v", got)
	}
}
