package mutant

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redfence/redfence/chaos/internal/scenario"
)

// root of the module.
const root = "../../.."

// hook finds the name of a mutant where its rule is broken: in Go, and in the
// table of other texts.
var hook = regexp.MustCompile(`failpoint\.Mutant\("([^"]+)"\)|(?m)^\t\{"([^"]+)", "(?:sql|lua)/`)

// TestEveryMutantBreaksSomething compares the table with the code.
func TestEveryMutantBreaksSomething(t *testing.T) {
	hooked := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range hook.FindAllStringSubmatch(string(text), -1) {
			hooked[match[1]+match[2]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range All() {
		if seen[m.Name] || m.Rule == "" || m.Breaks == "" || m.Killer.Shows == "" {
			t.Errorf("the entry of %q", m.Name)
		}
		seen[m.Name] = true
		if !hooked[m.Name] {
			t.Errorf("%s breaks nothing", m.Name)
		}
	}
	for name := range hooked {
		if !seen[name] {
			t.Errorf("%s is in the code and not in the table", name)
		}
	}
}

func TestEveryKillerExists(t *testing.T) {
	for _, m := range All() {
		if m.Killer.Scenario != "" {
			if _, err := scenario.Select(m.Killer.Scenario); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
			continue
		}
		name, _, _ := strings.Cut(m.Killer.Test, "/")
		files, err := filepath.Glob(filepath.Join(root, m.Killer.Package, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(text, []byte("func "+name+"(t *testing.T)"))
		}
		if !found {
			t.Errorf("%s: no %v", m.Name, m.Killer)
		}
	}
}

func TestEveryMutantHasItsDay(t *testing.T) {
	seen := map[string]bool{}
	for day := 1; day <= len(table); day++ {
		chosen, err := Select("today", day)
		if err != nil || len(chosen) != 3 {
			t.Fatalf("day %d: %v, %v", day, chosen, err)
		}
		for _, m := range chosen {
			seen[m.Name] = true
		}
	}
	if len(seen) != len(table) {
		t.Errorf("%d of %d have a turn", len(seen), len(table))
	}
	if _, err := Select("release-by-delete, nonsense", 1); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a wrong name: %v", err)
	}
}

// TestWhoSurvivesIsTold tries mutants that nothing can notice, or not for the
// reason given.
func TestWhoSurvivesIsTold(t *testing.T) {
	h := &Hunter{Dir: t.TempDir(), Bin: t.TempDir()}
	harmless := Mutant{Name: "harmless", Killer: test("internal/problems", "TestEmptyListIsNil", "anything")}
	var told strings.Builder
	results, err := h.Hunt(t.Context(), []Mutant{harmless}, &told)
	if err != nil || len(results) != 1 || results[0].Caught || !strings.HasPrefix(told.String(), "SURVIVED") {
		t.Fatalf("%+v, %v\n%s", results, err, told.String())
	}
	if r := NewReport(results); r.Code != survived || r.Verdict != "mutant survived (4)" {
		t.Errorf("%+v", r)
	}
	for text, want := range map[string]string{
		"=== RUN TestX\n    x_test.go:3: fence 7 after 9\n--- FAIL: TestX\n": "x_test.go:3: fence 7 after 9",
		"=== RUN TestX after\n    x_test.go:3: another reason\n":             "",
	} {
		if got := said(text, "after"); got != want {
			t.Errorf("said %q, want %q", got, want)
		}
	}
}
