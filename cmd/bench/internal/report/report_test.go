package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result makes a contender with a round per rate.
func result(contender string, rates ...float64) Result {
	r := Result{Scenario: "lock", Contender: contender, Options: "how <" + contender + "> is used", Baseline: "redsync", Callers: 128}
	for _, rate := range rates {
		r.Rounds = append(r.Rounds, Round{
			Sample: measure.Sample{Seconds: 1, Ops: rate, Timeline: []measure.Tick{{Ops: 5}, {Ops: 1, Failed: 2}}},
			P50:    time.Millisecond, P90: 2 * time.Millisecond, P99: 3 * time.Millisecond, P999: 4 * time.Millisecond, Max: time.Second,
			Checks: 10,
		})
	}
	return r
}

func example() Run {
	return Run{
		Format: Format, When: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Machine: Machine{CPUs: 2, OS: "linux/amd64", Go: "go1.26"},
		Results: []Result{result("redsync", 100, 110, 90), result("redfence", 800, 820, 790)},
		Targets: []Target{{ID: "P1a", Work: "a & b", Met: true, Figure: "8x"}},
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"lock, 128 callers", "800 (790–820)", "8.00× (7.45–8.78) redsync", "redsync: how <redsync> is used", "2 CPUs"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing:\n%s", want, out.String())
		}
	}
}

func TestARefusedContenderIsNotCompared(t *testing.T) {
	run := example()
	run.Results[1].Refused = "granted twice"
	var out bytes.Buffer
	if err := run.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "not compared: granted twice") || strings.Contains(out.String(), "8.00×") {
		t.Errorf("a contender that broke its promise is compared:\n%s", out.String())
	}
	run.Results[0].Refused, run.Results[1].Refused = "granted twice", ""
	out.Reset()
	if err := run.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "no baseline") {
		t.Errorf("compared with a baseline that broke its promise:\n%s", out.String())
	}
}

func TestAResultWithoutRoundsIsShown(t *testing.T) {
	run := example()
	run.Results = append(run.Results, result("late"))
	var out bytes.Buffer
	if err := errors.Join(run.WriteTable(&out), run.WriteHTML(&out)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "not measured") {
		t.Errorf("got:\n%s", out.String())
	}
}

func TestPicturesAreWellFormed(t *testing.T) {
	group := []Result{result(`<&"redsync`, 100), result("redfence", 0)}
	group[0].Fault, group[1].Fault = &Fault{"1 hung", 0.1, 0.2}, &Fault{"1 hung", 0.1, 0.2}
	group[1].Rounds[0].P50 = 0
	for name, draw := range map[string]func([]Result) string{"bars": Bars, "latencies": Latencies, "timeline": Timeline, "course": courses} {
		text := draw(group)
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: a figure is missing:\n%s", name, text)
		}
		decoder := xml.NewDecoder(strings.NewReader(text))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, text)
			}
		}
	}
}

// courses draws the course of each.
func courses(group []Result) string {
	text := "<g>"
	for _, r := range group {
		text += Course(r)
	}
	return text + "</g>"
}

func TestThePageOfOneContenderShowsItsRounds(t *testing.T) {
	run := example()
	var out bytes.Buffer
	if err := run.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "round by round") {
		t.Error("contenders that are compared are shown round by round")
	}
	run.Results = run.Results[1:]
	for i := range run.Results[0].Rounds {
		run.Results[0].Rounds[i].Figures = map[string]float64{"heap MB": float64(40 + i)}
	}
	out.Reset()
	if err := run.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"round by round", "heap MB", "at most 42", "at most 820"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
}

func TestPageNeedsNothingElse(t *testing.T) {
	var out bytes.Buffer
	if err := example().WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{"<svg", "met 8x", "how &lt;redfence&gt; is used", "a &amp; b"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, outside := range []string{"src=", "<link", "@import", "url("} {
		if strings.Contains(page, outside) {
			t.Errorf("the page refers to something else: %s", outside)
		}
	}
}

func TestRunSurvivesJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	text, err := json.Marshal(example())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(example(), got, cmpopts.IgnoreUnexported(measure.Sample{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := os.WriteFile(path, []byte(`{"format": 99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil {
		t.Error("a run of another format is read")
	}
}

func TestARoundKeepsNoHistogram(t *testing.T) {
	round := NewRound(measure.SampleOf([]time.Duration{time.Millisecond, time.Millisecond}))
	if round.P50 < 990*time.Microsecond || round.Quantile(0.5) != 0 {
		t.Errorf("P50 is %v, the sample says %v; want 1 ms and nothing", round.P50, round.Quantile(0.5))
	}
}

func TestCompare(t *testing.T) {
	old, recent := example(), example()
	recent.Results[1] = result("redfence", 1600, 1640, 1580)
	var out bytes.Buffer
	if err := Compare(&out, old, recent); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "+100 %") || !strings.Contains(out.String(), "none that is sure") {
		t.Errorf("got:\n%s", out.String())
	}
	recent.Results = []Result{{Scenario: "other", Rounds: []Round{{}}}}
	if err := Compare(&out, old, recent); err == nil {
		t.Error("two runs without anything in common are compared")
	}
}

func TestPublish(t *testing.T) {
	dir := t.TempDir()
	readme := filepath.Join(dir, "README.md")
	if err := os.WriteFile(readme, []byte("before\n"+tableBegin+"\nold figures\n"+tableEnd+"\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // publishing again replaces
		if err := example().Publish(readme); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, tableEnd+"\nafter\n") || strings.Contains(got, "old figures") ||
		strings.Count(got, "| lock, 128 callers | redfence | 800 |") != 1 || !strings.Contains(got, "Measured 2026-03-01 on 2 CPUs") {
		t.Errorf("got:\n%s", got)
	}
	if picture, err := os.ReadFile(filepath.Join(dir, picturePath)); err != nil || !bytes.HasPrefix(picture, []byte("<svg")) {
		t.Errorf("no picture: %v", err)
	}
}
