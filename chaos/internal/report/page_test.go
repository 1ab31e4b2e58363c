package report

import (
	"bytes"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/history"
)

// broken is a judged run with something of everything.
func broken() (*history.History, check.Result) {
	h := sample()
	h.Effects = append(h.Effects, history.Effect{At: 2 * time.Second, Kind: history.Breaker, Instance: "instance-0", Route: "open"})
	h.Faults = append(h.Faults,
		history.Fault{At: 4 * time.Second, Done: 5 * time.Second, Action: history.Action{Kind: history.RestartNode, Node: 4}, Proof: "answers PING"},
		history.Fault{At: 6 * time.Second, Done: 7 * time.Second, Action: history.Action{Kind: history.DropReply}, Missed: true, Proof: "<nothing> passed"})
	return h, check.Result{
		Violations: []check.Violation{
			{Class: check.Safety, Check: "double start", Key: "k", What: "2 starts <b>"},
			{Class: check.Safety, Check: "answers have no order", Key: "k/..", What: "5 operations"},
		},
		Figures: check.Figures{
			Keys: 2, Seconds: []check.Second{{Requests: 3, Served: 2, All: 5, Primary: 1, Fallback: 1}},
			Outages:  []check.Outage{{From: time.Second, To: 2 * time.Second, Fresh: 3, Served: 2}},
			Recovery: check.Recovery{Outages: 1, Served: check.Latency{Count: 3, P50: 20 * time.Millisecond, P99: 170 * time.Millisecond}},
		},
	}
}

func TestPageTellsEverythingByItself(t *testing.T) {
	h, result := broken()
	var b bytes.Buffer
	if err := New(h, result, "somewhere").HTML(&b); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{
		"<h1 class=\"wrong\">safety (1)</h1>", "<svg viewBox", "go run ./chaos -preset quick -seed 7", "2 starts &lt;b&gt;", "&lt;nothing&gt; passed",
		"breaker open, 2s to", "fault missed", "no Redis node up, 1s to 2s", "170ms", "history-k_.html", "start on instance-0", "prefers-color-scheme: dark", "@media print",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	if found := regexp.MustCompile(`(src|href)="[^"]*//`).FindString(got); found != "" {
		t.Errorf("the page needs %s", found)
	}
	if verdict, picture := strings.Index(got, "safety (1)</h1>"), strings.Index(got, "<svg"); verdict > picture {
		t.Error("the verdict does not come first")
	}
}

func TestJUnitHasACasePerCheck(t *testing.T) {
	h, result := broken()
	var b bytes.Buffer
	if err := New(h, result, "").JUnit(&b); err != nil {
		t.Fatal(err)
	}
	var suite junitSuite
	if err := xml.Unmarshal(b.Bytes(), &suite); err != nil {
		t.Fatal(err)
	}
	if suite.Tests != len(check.Kinds()) || len(suite.Cases) != suite.Tests || suite.Failures != 2 {
		t.Errorf("%d tests, %d cases, %d failures", suite.Tests, len(suite.Cases), suite.Failures)
	}
	if c := suite.Cases[0]; !strings.HasPrefix(c.Name, "double start") || c.Failure == nil || !strings.Contains(c.Failure.Message, "2 starts <b>") {
		t.Errorf("%+v", c)
	}
	h.Setup.Mutant = "m"
	b.Reset()
	if err := New(h, check.Result{}, "").JUnit(&b); err != nil || !strings.Contains(b.String(), "the mutant m survived") {
		t.Errorf("a mutant that survived: %v\n%s", err, b.String())
	}
}

func TestSaveWritesWhatTheTextNames(t *testing.T) {
	h, result := broken()
	r := New(h, result, t.TempDir())
	if err := r.Save(); err != nil {
		t.Fatal(err)
	}
	for _, name := range r.files() {
		if info, err := os.Stat(filepath.Join(r.Dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := text(t, r); !strings.Contains(got, "report.html, report.json, junit.xml, history-k_.html") {
		t.Error(got)
	}
}

func TestCommandRepeatsTheRun(t *testing.T) {
	for want, setup := range map[string]history.Setup{
		"go run ./chaos -preset standard -seed 3 -duration 10m -nodes 5 -instances 3 -rate 60 -policy retry": {
			Preset: "standard", Seed: 3, Duration: 10 * time.Minute, Nodes: 5, Instances: 3, Rate: 60, Policy: "retry"},
		"go run ./chaos -preset quick -seed 1 -duration 1h30m -nodes 3 -instances 1 -engine naive -fault a,b -keep 0,2 -break m": {
			Preset: "quick", Seed: 1, Duration: 90 * time.Minute, Nodes: 3, Instances: 1, Engine: "naive", Only: []string{"a", "b"}, Keep: []int{0, 2}, Mutant: "m"},
	} {
		if got := New(&history.History{Setup: setup}, check.Result{}, "").Command(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func TestLongStoryTellsTheMomentThatMatters(t *testing.T) {
	h := sample()
	for i := range 200 {
		h.Ops = append(h.Ops, history.Op{Kind: history.Late, Key: "k", Sent: time.Duration(20+i) * time.Second, Got: time.Duration(21+i) * time.Second, Status: 200})
	}
	var b strings.Builder
	New(h, check.Result{}, "").story(&b, "k", 120*time.Second)
	got := b.String()
	if !strings.Contains(got, " 120.000s client") || strings.Contains(got, " 1.000s client") || strings.Count(got, "\n") > mostLines+2 {
		t.Error(got)
	}
}

// TestWhatWasNotCheckedIsSaid: by the text, the page and JUnit, and no zero
// stands for it.
func TestWhatWasNotCheckedIsSaid(t *testing.T) {
	h, _ := broken()
	h.Setup.Target, h.Setup.Exec = []string{"http://a/orders"}, "./break.sh 'x'"
	r := New(h, check.Result{Unmade: []check.Unmade{{Check: "double start", Why: "nobody reported"}}}, "")
	if got := text(t, r); !strings.Contains(got, "not checked             double start: nobody reported") || strings.Contains(got, "double start            0") ||
		!strings.Contains(got, `-target http://a/orders -exec './break.sh '\''x'\'''`) {
		t.Error(got)
	}
	if page := written(t, r, Report.HTML); !strings.Contains(page, "not checked: nobody reported") || strings.Contains(page, "breaker closed,") {
		t.Error("the page claims what it cannot know")
	}
	var suite junitSuite
	if err := xml.Unmarshal([]byte(written(t, r, Report.JUnit)), &suite); err != nil {
		t.Fatal(err)
	}
	if c := suite.Cases[0]; suite.Skipped != 1 || c.Skipped == nil || c.Skipped.Message != "nobody reported" {
		t.Errorf("%+v", c)
	}
}
