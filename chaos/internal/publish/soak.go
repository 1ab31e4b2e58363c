package publish

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/report"
)

func isSoak(r report.Report) bool { return r.Setup.Preset == "soak" }

func (e Evidence) soaks() []report.Report {
	return slices.DeleteFunc(slices.Clone(e.Runs), func(r report.Report) bool { return !isSoak(r) })
}

// soak is the table of long runs, a row for each.
func (e Evidence) soak() string {
	runs := e.soaks()
	if len(runs) == 0 {
		return ""
	}
	var b strings.Builder
	heading(&b, []string{"`-preset soak`", "requests", "keys", "faults", "all nodes down", "started twice", "other safety",
		"served again: p50, p99", "primary route again: p50, p99", "available", "verdict"})
	for _, r := range runs {
		f := r.Result.Figures
		twice := violations(r, "double start")
		row(&b, []string{
			fmt.Sprintf("seed %d, %v", r.Setup.Seed, r.Setup.Duration), fmt.Sprint(f.Requests), fmt.Sprint(f.Keys),
			fmt.Sprint(sum(f.Broken)), fmt.Sprintf("%d times", len(f.Outages)), fmt.Sprintf("**%d**", twice),
			fmt.Sprintf("**%d**", r.Result.Count(check.Safety)-twice), times(f.Recovery.Served), times(f.Recovery.Primary),
			fmt.Sprintf("%.3f %% of %d", 100*f.Availability.Share(), f.Availability.Requests), r.Verdict,
		})
	}
	return b.String()
}

func sum(counts map[string]int) (total int) {
	for _, n := range counts {
		total += n
	}
	return total
}

func times(l check.Latency) string {
	if l.Count == 0 {
		return "–"
	}
	return fmt.Sprintf("%v, %v (of %d)", l.P50.Round(10*time.Millisecond), l.P99.Round(10*time.Millisecond), l.Count)
}

// soakFaults is the table of what long runs have broken, the most frequent
// first.
func (e Evidence) soakFaults() string {
	total := map[string]int{}
	for _, r := range e.soaks() {
		for kind, n := range r.Result.Figures.Broken {
			total[kind] += n
		}
	}
	if len(total) == 0 {
		return ""
	}
	kinds := slices.SortedFunc(maps.Keys(total), func(a, b string) int {
		return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	heading(&b, []string{"fault", "times that it hit something"})
	for _, kind := range kinds {
		row(&b, []string{"`" + kind + "`", fmt.Sprint(total[kind])})
	}
	return b.String()
}
