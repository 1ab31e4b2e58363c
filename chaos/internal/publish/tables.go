package publish

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/report"
	"github.com/redfence/redfence/chaos/internal/scenario"
)

// scenarios is the table of scenarios by engine.
func (e Evidence) scenarios() string {
	if len(e.Scenarios) == 0 {
		return ""
	}
	var b strings.Builder
	names := []string{"", "scenario", "what happens"}
	for _, r := range e.Scenarios {
		names = append(names, r.Engine)
	}
	heading(&b, names)
	for _, s := range scenario.All() {
		cells := []string{s.Letter, s.Name, s.Says}
		for _, r := range e.Scenarios {
			cells = append(cells, cell(r, s.Name))
		}
		row(&b, cells)
	}
	cells := []string{"", "", "**violate safety**"}
	for _, r := range e.Scenarios {
		cells = append(cells, fmt.Sprintf("**%d of %d**", count(r, check.Safety), played(r)))
	}
	row(&b, cells)
	return b.String()
}

func cell(r scenario.Report, name string) string {
	i := slices.IndexFunc(r.Results, func(r scenario.Result) bool { return r.Name == name })
	switch {
	case i < 0:
		return "not played"
	case r.Results[i].Skipped():
		return "–"
	case r.Results[i].Class == check.Fine:
		return "ok"
	}
	return r.Results[i].Class.String()
}

func count(r scenario.Report, class check.Class) (n int) {
	for _, result := range r.Results {
		if result.Class == class {
			n++
		}
	}
	return n
}

func played(r scenario.Report) (n int) {
	for _, result := range r.Results {
		if !result.Skipped() {
			n++
		}
	}
	return n
}

// mutants is the table of mutants and who caught them.
func (e Evidence) mutants() string {
	if len(e.Mutants) == 0 {
		return ""
	}
	var b strings.Builder
	heading(&b, []string{"mutant", "rule", "what it does", "caught by", "after"})
	caught := 0
	for _, m := range e.Mutants {
		after := "**survived**"
		if m.Caught {
			caught++
			after = m.Took.Round(100 * time.Millisecond).String()
		}
		row(&b, []string{"`" + m.Name + "`", m.Rule, m.Breaks, m.Killer, after})
	}
	fmt.Fprintf(&b, "\n%d of %d were caught.\n", caught, len(e.Mutants))
	return b.String()
}

// baselines is the table of runs of the same schedule on several engines.
func (e Evidence) baselines() string {
	runs := slices.DeleteFunc(slices.Clone(e.Runs), isSoak)
	if len(runs) == 0 {
		return ""
	}
	var b strings.Builder
	heading(&b, []string{"engine", "schedule", "keys", "keys that ran twice", "keys with two answers", "verdict"})
	for _, r := range runs {
		s, f := r.Setup, r.Result.Figures
		row(&b, []string{
			engine(r), fmt.Sprintf("`-preset %s -seed %d -duration %v`", s.Preset, s.Seed, s.Duration), fmt.Sprint(f.Keys),
			fmt.Sprintf("**%d**", f.Again), fmt.Sprint(violations(r, "answers differ")), r.Verdict,
		})
	}
	return b.String()
}

func engine(r report.Report) string {
	if r.Setup.Ledger() {
		return baseline.Ours
	}
	return r.Setup.Engine
}

func violations(r report.Report, name string) (n int) {
	for _, v := range r.Result.Violations {
		if v.Check == name {
			n++
		}
	}
	return n
}

func heading(b *strings.Builder, cells []string) {
	row(b, cells)
	b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
}

func row(b *strings.Builder, cells []string) {
	for i, c := range cells {
		cells[i] = strings.ReplaceAll(c, "|", `\|`)
	}
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
