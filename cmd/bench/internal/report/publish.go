package report

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

// The lines between which the README's table stands.
const (
	tableBegin = "<!-- bench: begin, written by `bench -publish` -->"
	tableEnd   = "<!-- bench: end -->"
)

// pictureOf is the scenario and the load of the README's picture.
const (
	pictureOf      = "lock"
	pictureCallers = 128
	picturePath    = "docs/img/bench-lock.svg"
)

// Publish writes the run's table between the marks in a README, and its
// picture beside it.
func (r Run) Publish(readme string) error {
	text, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, okEnd := strings.Cut(rest, tableEnd)
	if !ok || !okEnd {
		return fmt.Errorf("%s lacks the lines %q and %q", readme, tableBegin, tableEnd)
	}
	picture := ""
	for _, group := range r.groups() {
		if group[0].Scenario == pictureOf && group[0].Callers == pictureCallers {
			picture = Bars(group)
		}
	}
	if picture == "" {
		return fmt.Errorf("the run has no %s with %d callers to draw", pictureOf, pictureCallers)
	}
	image := filepath.Join(filepath.Dir(readme), picturePath)
	return errors.Join(
		os.MkdirAll(filepath.Dir(image), 0o755),
		os.WriteFile(image, []byte(picture+"\n"), 0o644),
		os.WriteFile(readme, []byte(before+tableBegin+"\n"+r.markdown()+tableEnd+after), 0o644),
	)
}

// markdown is the README's table.
func (r Run) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured %s on %s. Ratios within interleaved rounds, medians (extremes); absolute rates are those of that hour.\n", r.When.Format("2006-01-02"), r.Machine)
	fmt.Fprintf(&b, "\n![Locks and unlocks per second of each contender](%s)\n\n", picturePath)
	b.WriteString("| work | contender | op/s | of baseline | p50 | p99 | CPU per op |\n|---|---|---|---|---|---|---|\n")
	for _, group := range r.groups() {
		for _, result := range group {
			fmt.Fprintf(&b, "| %s | %s | %.0f | %s | %s | %s | %s |\n", title(group), result.Contender,
				measure.SpreadOf(result.Rates()).Median, comparison(result, group), Latency(measure.SpreadOf(result.P50s()).Median),
				Latency(measure.SpreadOf(result.P99s()).Median), Latency(measure.SpreadOf(result.CPUs()).Median))
		}
	}
	b.WriteString("\n")
	return b.String()
}
