package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/report"
	"github.com/redfence/redfence/chaos/internal/scenario"
)

func TestMain(m *testing.M) {
	if to := os.Getenv(hookVariable); to != "" {
		os.Exit(hook(to, os.Args[1:]))
	}
	redis.SetLogger(quiet{})
	goleak.VerifyTestMain(m)
}

// easy is a load that a busy machine with the race detector carries.
const easy = "-rate=20"

// chaos runs the command and returns its exit code and what it printed.
func chaos(t *testing.T, args ...string) (code int, stdout string) {
	t.Helper()
	var out, progress bytes.Buffer
	code = command(t.Context(), args, &out, &progress)
	t.Logf("chaos %s\n%s%s", strings.Join(args, " "), progress.String(), out.String())
	return code, out.String()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// needServers skips where nothing can be started, and fails in CI.
func needServers(t *testing.T) {
	t.Helper()
	if err := missingServers(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func TestNothingRunsTwiceWhileRedisDiesAndComesBack(t *testing.T) {
	needServers(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Rel(here, filepath.Join(t.TempDir(), "run")) // as the default is: relative
	if err != nil {
		t.Fatal(err)
	}
	code, out := chaos(t, easy, "-duration", "16s", "-seed", "2", "-out", dir)
	if code != 0 || lastLine(out) != "verdict: fine (0)" {
		t.Fatalf("exit code %d, last line %q", code, lastLine(out))
	}
	code, again := chaos(t, "check", dir)
	if code != 0 || again != out {
		t.Errorf("judged again: exit code %d\n%s", code, cmp.Diff(out, again))
	}
	if code, _ := chaos(t, "-out", dir); code != int(check.Invalid) {
		t.Errorf("a second run into the same folder ended with %d", code)
	}
}

// TestBrokenRunIsCaught shows that the verdict of a random run can be trusted:
// the instances are naive ones or, with REDFENCE_LONG=1, engines that skip the
// claim on the primary route and leave keys behind that never settle.
func TestBrokenRunIsCaught(t *testing.T) {
	needServers(t)
	broken := []string{"-engine", "naive"}
	if os.Getenv("REDFENCE_LONG") == "1" {
		broken = []string{"-break", "no-ledger-claim"}
	}
	code, out := chaos(t, append(broken, easy, "-duration", "14s", "-out", filepath.Join(t.TempDir(), "run"))...)
	if code != int(check.Safety) || lastLine(out) != "verdict: safety (1)" {
		t.Fatalf("exit code %d, last line %q", code, lastLine(out))
	}
	if !strings.Contains(out, "SAFETY: double start") {
		t.Error("the report shows no double start")
	}
}

// TestScriptedScenarios plays the interleavings that were thought of: every other
// one each day, with REDFENCE_LONG=1 all.
func TestScriptedScenarios(t *testing.T) {
	needServers(t)
	list := "all"
	if os.Getenv("REDFENCE_LONG") != "1" {
		var letters []string
		for i, s := range scenario.All() {
			if i%2 == time.Now().YearDay()%2 {
				letters = append(letters, s.Letter)
			}
		}
		list = strings.Join(letters, ",")
	}
	code, out := chaos(t, "-scenario", list, "-out", filepath.Join(t.TempDir(), "run"))
	if code != 0 || lastLine(out) != "verdict: fine (0)" {
		t.Errorf("exit code %d, last line %q", code, lastLine(out))
	}
}

// TestBaselinesRunTwice plays what good faith does not think of, and what it
// does, on what people compose: one composition each day, with REDFENCE_LONG=1
// all.
func TestBaselinesRunTwice(t *testing.T) {
	needServers(t)
	baselines := []string{"naive", "redsync"}
	if os.Getenv("REDFENCE_LONG") != "1" {
		baselines = baselines[time.Now().YearDay()%len(baselines):][:1]
	}
	for _, engine := range baselines {
		want := map[string]map[string]check.Class{
			"naive":   {"a": check.Safety, "b2": check.Safety, "o": check.Fine, "e": check.Fine},
			"redsync": {"i": check.Safety, "e": check.Safety, "o": check.Fine, "f": check.Fine},
		}[engine]
		list := strings.Join(slices.Collect(maps.Keys(want)), ",")
		code, out := chaos(t, "-scenario", list, "-engine", engine, "-json", "-out", filepath.Join(t.TempDir(), "run"))
		var r scenario.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		if code != int(check.Safety) || r.Engine != engine {
			t.Errorf("%s: exit code %d, engine %q", engine, code, r.Engine)
		}
		for _, result := range r.Results {
			if result.Class != want[result.Letter] {
				t.Errorf("%s: %v", engine, result)
			}
		}
	}
}

// TestScenariosCatchABrokenEngine shows in seconds what the random run shows.
func TestScenariosCatchABrokenEngine(t *testing.T) {
	needServers(t)
	code, out := chaos(t, "-scenario", "a, owner-paused-under-redlock", "-break", "no-ledger-claim", "-out", filepath.Join(t.TempDir(), "run"))
	if code != int(check.Safety) || !strings.Contains(out, "SAFETY") {
		t.Errorf("exit code %d", code)
	}
}

// TestMutantsAreCaught tries one that a scenario catches; "make mutants" tries
// all.
func TestMutantsAreCaught(t *testing.T) {
	needServers(t)
	code, out := chaos(t, "-mutant", "taken-is-in-progress", "-out", filepath.Join(t.TempDir(), "run"))
	if code != 0 || lastLine(out) != "verdict: fine (0)" {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if code, out := chaos(t, "-mutant", "list"); code != 0 || !strings.Contains(out, "no-ledger-claim") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}

func TestRehearsalNeedsNoServers(t *testing.T) {
	t.Setenv("PATH", "") // neither servers nor a compiler
	code, out := chaos(t, easy, "-rehearse", "-duration", "12s", "-json", "-out", filepath.Join(t.TempDir(), "run"))
	var r report.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if code != 0 || r.Verdict != "REHEARSAL fine (0)" || r.Result.Figures.Fallback == 0 || r.Result.Figures.Primary == 0 {
		t.Errorf("exit code %d, report %+v", code, r)
	}
	code, text := chaos(t, "check", r.Dir)
	if code != 0 || !strings.HasPrefix(text, "REHEARSAL: no process was killed, nothing was durable.\n") {
		t.Errorf("exit code %d, text begins with %.80q", code, text)
	}
}

func TestMistakesEndAtOnce(t *testing.T) {
	for _, args := range [][]string{
		{"-nodes", "4"}, {"-duration", "soon"}, {"-duration=-1s"}, {"-mutant", "nosuch"}, {"-no-such-flag"}, {"-instances", "0", "-rehearse"}, {"-rate", "0", "-rehearse"},
		{"-target", "http://127.0.0.1:1"}, {"-exec", "true"}, {"-target", "somewhere", "-exec", "true"}, {"-driver", "compose", "-exec", "true"}, {"-driver", "compose", "-fault", "cut-redis"}, {"-driver", "compose", "-shrink"},
		{"-break", "x"}, {"-rehearse", "-break", "no-ledger-claim"}, {"-rehearse", "-preset", "pause"}, {"-rehearse", "-engine", "naive"}, {"-engine", "x"}, {"-preset", "x"}, {"-scenario", "no-such"}, {"check", t.TempDir()}, {"check", "/no/such/folder"},
	} {
		if code, out := chaos(t, args...); code != failure || out != "" {
			t.Errorf("chaos %v: exit code %d, output %q", args, code, out)
		}
	}
}

func TestOneDashIsEnough(t *testing.T) {
	want := []string{"--duration", "5s", "--seed=3", "-h", "check", "dir", "-"}
	if diff := cmp.Diff(want, longFlags([]string{"-duration", "5s", "--seed=3", "-h", "check", "dir", "-"})); diff != "" {
		t.Error(diff)
	}
}
