package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/observe"
)

func TestStormAndGrowthRun(t *testing.T) {
	needServers(t)
	var out, notes bytes.Buffer
	run([]string{"-preset", "smoke", "-target", "P8,P10"}, &out, &notes)
	for _, want := range []string{`(?m)^P8 (met|missed) \d+\.\d+ statements per key, `, `(?m)^P10 (met|missed) \d+\.\d+x with 10000 rows; heap `} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no line like %s:\n%s\n%s", want, out.String(), notes.String())
		}
	}
}

func TestStormComparesContenders(t *testing.T) {
	needServers(t)
	var out, notes bytes.Buffer
	page := filepath.Join(t.TempDir(), "report.html")
	if code := run([]string{"-preset", "smoke", "-scenario", "storm", "-dup", "0.5", "-processes", "2", "-callers", "5", "-json", "-html", page}, &out, &notes); code != exitOK {
		t.Fatalf("exit code %d\n%s\n%s", code, notes.String(), out.String())
	}
	var found report.Run
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range found.Results {
		seen[r.Contender] = true
		if want := "storm, 50 % duplicates, processes: 2"; r.Scenario != want || r.Callers != 5 {
			t.Errorf("%s: %q with %d callers; want %q with 5", r.Contender, r.Scenario, r.Callers, want)
		}
		for _, round := range r.Rounds {
			if share := round.Figures["keys"] / round.Ops; round.Callers != 5 || round.P999 <= 0 || round.CPUPerOp() <= 0 || share < 0.3 || round.Checks == 0 {
				t.Errorf("%s: a round without figures, or %.2f of its requests were fresh: %+v", r.Contender, share, round)
			}
		}
	}
	for _, name := range []string{"naive-durable", "ledger-only", "redfence-fallback", "redfence-near"} {
		if !seen[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("storm, 50 % duplicates")) {
		t.Errorf("the report does not show the storm: %v", err)
	}
}

func TestStormSharesItsCallers(t *testing.T) {
	tests := []struct {
		callers, processes int
		want               []int
	}{
		{256, 4, []int{64, 64, 64, 64}},
		{5, 2, []int{2, 3}},
		{3, 3, []int{1, 1, 1}},
	}
	for _, tt := range tests {
		load := stormLoad{callers: tt.callers, processes: tt.processes}
		var got []int
		for i := range tt.processes {
			got = append(got, load.share(i))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d callers in %d processes: %v, want %v", tt.callers, tt.processes, got, tt.want)
		}
	}
}

func TestStormKeepsTheShareOfDuplicates(t *testing.T) {
	shared, err := newTally()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := shared.remove(); err != nil {
			t.Error(err)
		}
	}()
	zipf := newRecent()
	const requests = 20_000
	for range requests {
		if _, err := stormID(shared, zipf, 0.8); err != nil {
			t.Fatal(err)
		}
	}
	// Ten standard deviations to either side.
	if share := float64(shared.used()) / requests; share < 0.172 || share > 0.228 {
		t.Errorf("%.3f of the requests were fresh, want 0.2", share)
	}
}

func TestStormVerdict(t *testing.T) {
	good := report.Round{Sample: measure.Sample{Ops: 2000, Failed: 2}}
	if err := stormVerdict(good, 0); err != nil {
		t.Errorf("two failures in two thousand: %v", err)
	}
	if stormVerdict(good, 1) == nil {
		t.Error("an id ran twice and the storm is compared")
	}
	good.Broken = 1
	if stormVerdict(good, 0) == nil {
		t.Error("a response was another's and the storm is compared")
	}
	if stormVerdict(report.Round{Sample: measure.Sample{Ops: 2000, Failed: 3}}, 0) == nil {
		t.Error("three failures in two thousand, and the storm is compared")
	}
}

func TestTallyIsShared(t *testing.T) {
	mine, err := newTally()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := mine.remove(); err != nil {
			t.Error(err)
		}
	}()
	other, err := openTally(mine.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for want := range 4 {
		from := []*tally{mine, other}[want%2]
		if id, err := from.fresh(); err != nil || id != want {
			t.Fatalf("fresh() = %d, %v; want %d", id, err, want)
		}
	}
	mine.start(0)
	mine.start(3)
	other.start(3)
	if used, twice := mine.used(), mine.twice(); used != 4 || twice != 1 {
		t.Errorf("used %d, twice %d; want 4 and 1", used, twice)
	}
	if err := other.close(); err != nil {
		t.Error(err)
	}
}

func TestRecentLooksBackALittle(t *testing.T) {
	r := newRecent()
	near := 0
	for range 1000 {
		if back := r.draw(5000); back < 0 || back >= 5000 {
			t.Fatalf("draw(5000) = %d", back)
		} else if back < 100 {
			near++
		}
	}
	if near < 500 {
		t.Errorf("%d of 1000 draws are among the last 100 ids; want most", near)
	}
}

func TestJudgeOutage(t *testing.T) {
	killed := time.Unix(1000, 0)
	back := killed.Add(3 * time.Second)
	at := func(after, took time.Duration, route observe.Route, err error) request {
		return request{end: killed.Add(after), took: took, route: route, err: err}
	}
	served := []request{
		at(-time.Second, 5*time.Second, observe.Primary, nil), // before: does not count, however slow
		at(time.Second, 700*time.Millisecond, observe.Fallback, nil),
		at(3500*time.Millisecond, 10*time.Millisecond, observe.Fallback, nil),
		at(4*time.Second, 10*time.Millisecond, observe.Primary, nil),
		at(5*time.Second, 10*time.Millisecond, observe.Primary, nil),
	}
	got, err := judgeOutage(served, measure.Sample{}, killed, back)
	if err != nil || got.lost != 0 || got.p99 != 700e6 || got.back != 1e9 {
		t.Errorf("got p99 %v, back %v, lost %d, %v; want 700 ms, 1 s, none", got.p99, got.back, got.lost, err)
	}
	lossy := append(served, at(2*time.Second, time.Second, observe.Fallback, errors.New("refused")))
	if got, err := judgeOutage(lossy, measure.Sample{}, killed, back); err != nil || got.lost != 1 {
		t.Errorf("a request failed: lost %d, %v", got.lost, err)
	}
	if _, err := judgeOutage(served[:3], measure.Sample{}, killed, back); err == nil {
		t.Error("the primary route was never taken again, and nobody noticed")
	}
	if _, err := judgeOutage(served[3:], measure.Sample{}, killed, back); err == nil {
		t.Error("nothing was served during the outage, and nobody noticed")
	}
}
