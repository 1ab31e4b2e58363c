package scenario

import (
	"strings"
	"testing"

	"github.com/redfence/redfence/chaos/internal/check"
)

func TestEveryScenarioHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range All() {
		if seen[s.Letter] || seen[s.Name] || s.Says == "" || s.play == nil {
			t.Errorf("scenario %s %s", s.Letter, s.Name)
		}
		seen[s.Letter], seen[s.Name] = true, true
	}
}

func TestSelectTakesLettersAndNames(t *testing.T) {
	all, err := Select("all")
	if err != nil || len(all) != len(All()) {
		t.Errorf("all: %d scenarios, %v", len(all), err)
	}
	two, err := Select("x2, finished-in-redis-only")
	if err != nil || len(two) != 2 || two[0].Letter != "x2" || two[1].Letter != "a" {
		t.Errorf("two: %v, %v", two, err)
	}
	if _, err := Select("a,nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), "finished-in-redis-only") {
		t.Errorf("a wrong name: %v", err)
	}
}

func TestReportNamesTheWorst(t *testing.T) {
	of := func(classes ...check.Class) (results []Result) {
		for _, class := range classes {
			results = append(results, Result{Name: "n", Class: class})
		}
		return results
	}
	for _, c := range []struct {
		results []Result
		mutant  string
		want    string
		code    int
	}{
		{of(check.Fine, check.Fine), "", "fine (0)", 0},
		{of(check.Liveness, check.Safety, check.Invalid), "", "safety (1)", 1},
		{of(check.Liveness, check.Fine), "", "liveness (2)", 2},
		{of(check.Liveness, check.Invalid), "", "rig invalid (3)", 3},
		{of(check.Fine), "m", "mutant survived (4)", 4},
		{of(check.Fine, check.Safety), "m", "safety (1)", 1},
	} {
		r := NewReport(c.results, "redfence", c.mutant)
		var text strings.Builder
		if err := r.Text(&text); err != nil {
			t.Fatal(err)
		}
		if code, verdict := r.Exit(); code != c.code || verdict != c.want || !strings.HasSuffix(text.String(), "\nverdict: "+c.want+"\n") {
			t.Errorf("%v: %d %q\n%s", c.results, code, verdict, text.String())
		}
	}
}
