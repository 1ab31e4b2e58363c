package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
	"github.com/redfence/redfence/cmd/bench/internal/report"
)

func TestSoakTellsOfEachRoundAndJudges(t *testing.T) {
	needServers(t)
	var out, notes bytes.Buffer
	page := filepath.Join(t.TempDir(), "report.html")
	run([]string{"-preset", "smoke", "-soak", "2s", "-callers", "4", "-dup", "0.5", "-html", page}, &out, &notes)
	lines := regexp.MustCompile(`(?m)^soak, round \d+/10: [1-9]\d*/s, p99 [\d.]+ m?s, 0 failed, heap [1-9][\d.]* MB, [1-9]\d* rows in the ledger$`)
	if got := lines.FindAllString(notes.String(), -1); len(got) != 10 {
		t.Errorf("%d lines like %s, want 10:\n%s", len(got), lines, notes.String())
	}
	for _, want := range []string{`soak, do-mixed, 4 callers`, `redfence-near .* heap MB`, `(?m)^soak (met|missed) from \d+/s, p99 .*, heap .* MB in the last \(gate`} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("nothing like %s:\n%s", want, out.String())
		}
	}
	if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("soak, do-mixed")) {
		t.Errorf("the report does not show the soak: %v", err)
	}
}

// interruptAfter ends a soak in the middle of the round after those that it
// has told of.
type interruptAfter struct {
	bytes.Buffer
	rounds int
	cancel context.CancelFunc
}

func (w *interruptAfter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Count(w.String(), "soak, round") == w.rounds {
		time.AfterFunc(300*time.Millisecond, w.cancel)
	}
	return n, err
}

func TestAnInterruptedSoakReportsWhatItHas(t *testing.T) {
	needServers(t)
	o, err := parse([]string{"-preset", "smoke", "-soak", "10s", "-scenario", "lock", "-callers", "2", "-json", "-rate", "50"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	notes := &interruptAfter{rounds: 2, cancel: cancel}
	if _, err := benchmark(ctx, o, &out, notes); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	var found report.Run
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Results) != 1 || len(found.Results[0].Rounds) != 3 || found.Results[0].Refused != "" {
		t.Fatalf("got %+v, want one result of three rounds", found.Results)
	}
	if last := found.Results[0].Rounds[2]; last.Seconds >= 1 || last.Ops == 0 || last.Failed > 0 || last.ServerCPU < 0 {
		t.Errorf("the round that was cut short: %+v", last)
	}
	if len(found.Targets) != 1 || found.Targets[0].NotRun != "" || found.Preset != "soak" {
		t.Errorf("no verdict on two whole rounds: %+v", found.Targets)
	}
	if rate := found.Results[0].Rounds[0].Rate(); rate < 40 || rate > 55 {
		t.Errorf("%.0f operations a second, want the 50 that are due", rate)
	}
}

// soakOf makes a soak with rounds of a second.
func soakOf(rates, heaps []float64) report.Result {
	var r report.Result
	for i := range rates {
		r.Rounds = append(r.Rounds, report.Round{
			Sample:  measure.Sample{Seconds: 1, Ops: rates[i]},
			Figures: map[string]float64{soakHeap: heaps[i]},
		})
	}
	return r
}

// constant returns n times x.
func constant(n int, x float64) []float64 {
	all := make([]float64, n)
	for i := range all {
		all[i] = x
	}
	return all
}

func TestJudgeSoak(t *testing.T) {
	slower := constant(30, 1000)
	copy(slower[27:], []float64{890, 890, 1000})
	larger := constant(30, 50)
	copy(larger[27:], []float64{50, 64, 64})
	cut := append(constant(20, 1000), 10)
	tests := []struct {
		name         string
		rates, heaps []float64
		whole        int
		met          bool
	}{
		{"flat", constant(30, 1000), constant(30, 50), 30, true},
		{"slower in most of the last tenth", slower, constant(30, 50), 30, false},
		{"larger in most of the last tenth", constant(30, 1000), larger, 30, false},
		{"slower in the round that was cut short only", cut, constant(21, 50), 20, true},
		{"nothing succeeded", constant(30, 0), constant(30, 50), 30, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := judgeSoak(soakOf(tt.rates, tt.heaps), tt.whole)
			if got.Met != tt.met || got.NotRun != "" {
				t.Errorf("got %s, want met %v", got, tt.met)
			}
		})
	}
	if got := judgeSoak(soakOf(constant(2, 1000), constant(2, 50)), 1); got.NotRun == "" {
		t.Errorf("one whole round was judged: %s", got)
	}
	refused := soakOf(constant(30, 1000), constant(30, 50))
	refused.Refused = "an id ran twice"
	if got := judgeSoak(refused, 30); got.Met || !strings.Contains(got.String(), "an id ran twice") {
		t.Errorf("a promise was broken, and the verdict is %s", got)
	}
}

func TestWrongSoaks(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"-soak", "-1m"}, "-soak -1m0s: use at least 1s"},
		{[]string{"-soak", "30m", "-target", "P1a"}, "-soak and -target: use one of them"},
		{[]string{"-soak", "30m", "-scenario", "sick"}, "-soak with -scenario sick: use one of lock, contended, do-fresh, do-replay, do-mixed"},
		{[]string{"-soak", "30m", "-scenario", "lock,do-fresh"}, "-soak with -scenario lock,do-fresh: use one of"},
	}
	for _, tt := range tests {
		if _, err := parse(tt.args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: got %v, want %s", tt.args, err, tt.want)
		}
	}
}
