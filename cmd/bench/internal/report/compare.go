package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

// Read reads a run that was written with -json.
func Read(path string) (Run, error) {
	var r Run
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: not a run of the benchmark: %w", path, err)
	}
	if r.Format != Format {
		return r, fmt.Errorf("%s has format %d, this program reads %d: run the benchmark again", path, r.Format, Format)
	}
	return r, nil
}

// Compare writes what two runs have in common side by side. A change is said
// to be one only where the extremes of the rounds do not overlap, and ratios
// to the baseline are what to trust between two hours.
func Compare(w io.Writer, old, new Run) error {
	fmt.Fprintf(w, "old: %s, %s\nnew: %s, %s\n\n", old.When.Format("2006-01-02 15:04"), old.Machine, new.When.Format("2006-01-02 15:04"), new.Machine)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "scenario\tcallers\tcontender\told op/s\tnew op/s\tchange\told ratio\tnew ratio")
	common := 0
	for _, group := range new.groups() {
		for _, result := range group {
			before, baseline, ok := old.find(result)
			if !ok {
				continue
			}
			common++
			a, b := measure.SpreadOf(before.Rates()), measure.SpreadOf(result.Rates())
			_, newBase, _ := new.find(result)
			fmt.Fprintf(tab, "%s\t%d\t%s\t%.0f\t%.0f\t%s\t%.2f×\t%.2f×\n", result.Scenario, result.Callers, result.Contender,
				a.Median, b.Median, change(a, b), before.Ratio(baseline).Median, result.Ratio(newBase).Median)
		}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	if common == 0 {
		return fmt.Errorf("the two runs have nothing in common: measure the same scenarios with the same callers")
	}
	return nil
}

// find returns the result of the same contender under the same load, and its
// baseline.
func (r Run) find(like Result) (found, baseline Result, ok bool) {
	for _, group := range r.groups() {
		if group[0].Scenario != like.Scenario || group[0].Callers != like.Callers {
			continue
		}
		for _, result := range group {
			if result.Contender == like.Contender {
				found, ok = result, true
			}
			if result.Contender == like.Baseline {
				baseline = result
			}
		}
	}
	return found, baseline, ok
}

// change tells how the medians differ, if the rounds do not overlap.
func change(old, new measure.Spread) string {
	if old.Median == 0 {
		return "–"
	}
	if old.Min <= new.Max && new.Min <= old.Max {
		return "none that is sure"
	}
	return fmt.Sprintf("%+.0f %%", 100*(new.Median/old.Median-1))
}
