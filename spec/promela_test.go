package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPromela searches failover.pml, which knows nothing of the Go model: the
// composition of good faith starts a handler twice, the protocol does not, and
// the rules that it leaves out by a switch are missed.
func TestPromela(t *testing.T) {
	for _, program := range []string{"spin", "gcc"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("%v: make setup installs it", err)
			}
			t.Skipf("%v: make setup installs it", err)
		}
	}
	for _, c := range []struct{ name, switches, broken string }{
		{"the protocol, Hold", "", ""},
		{"the protocol, Retry", "-DRETRY", ""},
		{"the naive composition", "-DNAIVE", "starts<=1"},
		{"completion without fence", "-DRETRY -DNOFENCE", "accepted<=1"},
		{"reply before completion", "-DRETRY -DREPLY", "answered==mine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			broken, states := searchPromela(t, strings.Fields(c.switches))
			if broken != c.broken {
				t.Errorf("broken: %q, want %q", broken, c.broken)
			}
			if c.broken == "" && len(states) < 6 {
				t.Errorf("only %s states: the model shows little", states)
			}
		})
	}
}

var (
	assertion = regexp.MustCompile(`assertion violated \((.*)\) \(at depth`)
	complete  = regexp.MustCompile(`errors: 0\n\s*(\d+) states, stored`)
)

// searchPromela returns the assertion that broke, if any, and how many states
// a search that found nothing went through.
func searchPromela(t *testing.T, switches []string) (broken, states string) {
	t.Helper()
	model, err := filepath.Abs("failover.pml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		command := exec.CommandContext(t.Context(), name, args...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	run("spin", append(append([]string{"-a"}, switches...), model)...)
	run("gcc", "-O0", "-DSAFETY", "-o", "pan", "pan.c")
	out := run(filepath.Join(dir, "pan"), "-m100000")
	if found := assertion.FindStringSubmatch(out); found != nil {
		return found[1], ""
	}
	found := complete.FindStringSubmatch(out)
	if found == nil || strings.Contains(out, "max search depth too small") {
		t.Fatalf("the search did not end:\n%s", out)
	}
	return "", found[1]
}
