package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestProtocol: as it stands, the protocol breaks no promise.
func TestProtocol(t *testing.T) {
	if raceDetector {
		searchOutside(t)
		return
	}
	for _, r := range Runs() {
		if r.Without != "" {
			continue
		}
		t.Run(r.ID+" "+r.Model.Name, func(t *testing.T) {
			t.Parallel()
			res := r.Model.Explore(worldLimit, "")
			if wrong := r.verdict(res); wrong != "" {
				t.Fatalf("%s\n%s", wrong, strings.Join(res.Trace, "\n"))
			}
			if res.Worlds < 20_000 {
				t.Errorf("only %d worlds: the scenario shows little", res.Worlds)
			}
		})
	}
}

// searchOutside runs the command without the race detector.
func searchOutside(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "spec")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "verdict: the protocol breaks no promise") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestEachRuleIsNeeded: leaving out any one rule breaks the promise that its
// line names.
func TestEachRuleIsNeeded(t *testing.T) {
	if raceDetector {
		t.Skip("TestProtocol has run the command, which goes through these runs too")
	}
	seen := make(map[Rule]bool)
	for _, r := range Runs() {
		if r.Without == "" {
			continue
		}
		if seen[r.Without] {
			t.Errorf("%s is left out twice", r.Without)
		}
		seen[r.Without] = true
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			res := r.Model.Explore(worldLimit, r.Finds)
			if wrong := r.verdict(res); wrong != "" {
				t.Fatalf("without %s: %s", r.Without, wrong)
			}
			if last := res.Trace[len(res.Trace)-1]; last != "BROKEN: "+string(r.Finds) || len(res.Trace) < 3 {
				t.Fatalf("the trace ends with %q after %d lines", last, len(res.Trace))
			}
		})
	}
}

// TestTableIsComplete: README.md has a line for every run that leaves a rule
// out, and names the promise that breaks.
func TestTableIsComplete(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range without {
		line := ""
		for l := range strings.Lines(string(readme)) {
			if strings.HasPrefix(l, "| "+r.ID+" |") {
				line = l
			}
		}
		if !strings.Contains(line, string(r.Finds)) {
			t.Errorf("README.md says of %s: %q, want the promise %q", r.ID, line, r.Finds)
		}
		if r.Dagger && !strings.Contains(line, "†") {
			t.Errorf("README.md does not mark %s with †", r.ID)
		}
	}
}

// TestWorldsAreValues: renumbering closes gaps, keeps the order and does not
// run out of the set's bits within the budgets.
func TestWorldsAreValues(t *testing.T) {
	w := World{Next: 30}
	w.Row = Row{State: Completed, Fence: 9, Token: 4, Response: 9, Claim: 9}
	w.LastGrant, w.Durable = 12, 9
	w.Committed.add(9)
	w.Expired.add(4)
	w.renumber()
	want := World{Next: 4, LastGrant: 3, Durable: 2}
	want.Row = Row{State: Completed, Fence: 2, Token: 1, Response: 2, Claim: 2}
	want.Committed.add(2)
	want.Expired.add(1)
	if w != want {
		t.Fatalf("got %+v, want %+v", w, want)
	}
	m := Model{Scenario: holdAll}
	a, b := World{Next: 1}, World{Next: 1}
	a.Procs[0].Cut, b.Procs[1].Cut = true, true
	if m.canonical(a) != m.canonical(b) {
		t.Fatal("processes are not interchangeable")
	}
}

// TestNamedTestsExist: every test that README.md and docs/GUARANTEES.md call as
// a witness is there.
func TestNamedTestsExist(t *testing.T) {
	there := make(map[string]bool)
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			there[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range []string{"README.md", filepath.Join("..", "docs", "GUARANTEES.md")} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(text), -1) {
			if named++; !there[name[1]] {
				t.Errorf("%s names %s, which is not there", page, name[1])
			}
		}
	}
	if named < 50 {
		t.Errorf("only %d tests are named", named)
	}
}

// TestGuaranteesAreComplete: every cell of a table by policy names a test or
// the rule that makes it as another cell.
func TestGuaranteesAreComplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "GUARANTEES.md"))
	if err != nil {
		t.Fatal(err)
	}
	reasoned := regexp.MustCompile("`Test\\w+`|R[0-9]+|§[0-9]|as above|does not arise")
	rows := 0
	inTable := false
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "| fault | Hold |"):
			inTable = true
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "|---"):
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if rows++; len(cells) != 6 {
				t.Errorf("%d cells: %s", len(cells), line)
			}
			for _, c := range cells[1:] {
				if !reasoned.MatchString(c) {
					t.Errorf("%s: no test and no rule in %q", cells[0], c)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows", rows)
	}
}
