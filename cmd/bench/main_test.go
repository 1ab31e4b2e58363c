package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/internal/servers"
)

func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) != "" {
		os.Exit(bePeer(os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func needServers(t *testing.T) {
	t.Helper()
	if err := servers.Available(); errors.Is(err, servers.ErrNotInstalled) {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestSmokeComparesEveryContender(t *testing.T) {
	needServers(t)
	var out, notes bytes.Buffer
	html := filepath.Join(t.TempDir(), "report.html")
	if code := run([]string{"-preset", "smoke", "-callers", "2", "-scenario", "lock,contended,do-fresh,do-replay", "-json", "-html", html}, &out, &notes); code != exitOK {
		t.Fatalf("exit code %d\n%s\n%v", code, notes.String(), regexp.MustCompile(`"(refused|first_error)": .*`).FindAllString(out.String(), -1))
	}
	var found report.Run
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(html); err != nil || !bytes.Contains(page, []byte("<svg")) {
		t.Errorf("no report: %v", err)
	}
	seen := map[string]bool{}
	for _, r := range found.Results {
		seen[r.Scenario+" "+r.Contender] = true
		for _, round := range r.Rounds {
			if round.Ops <= 0 || round.P50 <= 0 || round.Checks == 0 || round.Broken > 0 || round.CPUPerOp() <= 0 {
				t.Errorf("%s, %s: a round without figures: %+v", r.Scenario, r.Contender, round)
			}
		}
	}
	for _, c := range lockContenders() {
		if !seen["lock "+c.Name] {
			t.Errorf("lock: %s is missing", c.Name)
		}
	}
	for _, c := range doContenders() {
		if !seen["do-fresh "+c.Name] || !seen["do-replay "+c.Name] {
			t.Errorf("do: %s is missing", c.Name)
		}
	}
}

func TestTargetsHaveTheirOwnPace(t *testing.T) {
	needServers(t)
	var out, notes bytes.Buffer
	run([]string{"-preset", "smoke", "-target", "P2", "-json"}, &out, &notes)
	var found report.Run
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		t.Fatalf("%v\n%s", err, notes.String())
	}
	if len(found.Results) == 0 || len(found.Results[0].Rounds) == 0 {
		t.Fatalf("nothing was measured\n%s", notes.String())
	}
	smoke := presets["smoke"]
	if got := found.Results[0].Rounds[0].Seconds; got != smoke.judged.round.Seconds() || got <= smoke.round.Seconds() {
		t.Errorf("a round of a target takes %v s, want %v", got, smoke.judged.round)
	}
}

func TestHandOffBetweenProcesses(t *testing.T) {
	needServers(t)
	var out, notes bytes.Buffer
	run([]string{"-preset", "smoke", "-target", "P4"}, &out, &notes)
	if got := out.String(); !regexp.MustCompile(`^P4 (met|missed) p50 .* faster than redsync \(gate`).MatchString(got) {
		t.Errorf("got %q\n%s", got, notes.String())
	}
}

func TestEachProblemOfTheCommandLineIsTold(t *testing.T) {
	var out, notes bytes.Buffer
	code := run([]string{"-preset", "slow", "-target", "P99", "-redis", "a:1,b:2", "-scenario", "nap", "-html", "nowhere/x.html", "-dup", "1", "-processes", "0"}, &out, &notes)
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	for _, want := range []string{`-preset "slow"`, `-target "P99"`, "2 nodes", `-scenario "nap"`, `-html "nowhere/x.html"`, "-dup 1: use a share", "-processes 0"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("nothing said about %s:\n%s", want, notes.String())
		}
	}
}

func TestHelpNamesTheTargets(t *testing.T) {
	var out, notes bytes.Buffer
	if code := run([]string{"--help"}, &out, &notes); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"P1a", "P10", "-preset", "REDFENCE_BENCH_POSTGRES"} {
		if !strings.Contains(notes.String(), want) {
			t.Errorf("%s is missing:\n%s", want, notes.String())
		}
	}
}

func TestTargetLines(t *testing.T) {
	line := regexp.MustCompile(`^P\d+[ab]? (met|missed) .+ \(gate .+; goal .+\)$`)
	base := report.Target{ID: "P1a", Gate: "6x, 0.5", Goal: "8x, 0.65", Figure: "8.6x of redsync, 0.66 of raw", Met: true}
	if got, want := base.String(), "P1a met 8.6x of redsync, 0.66 of raw (gate 6x, 0.5; goal 8x, 0.65)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	base.Met = false
	if got := base.String(); !line.MatchString(got) || !strings.HasPrefix(got, "P1a missed") {
		t.Errorf("a missed target says %q", got)
	}
	base.NotRun = "no lock"
	if got, want := base.String(), "P1a not run: no lock"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
