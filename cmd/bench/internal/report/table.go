package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

// WriteTable writes the results for a terminal, a block per scenario and
// number of callers.
func (r Run) WriteTable(w io.Writer) error {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, group := range r.groups() {
		fmt.Fprintf(tab, "\n%s\t\n", title(group))
		fmt.Fprintln(tab, "\top/s (extremes)\tp50\tp99\tCPU/op\tchecks\tfailed\tof baseline\t")
		for _, result := range group {
			writeRow(tab, result, group)
		}
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	return r.writeOptions(w)
}

// writeOptions says how each contender was used.
func (r Run) writeOptions(w io.Writer) error {
	var err error
	for _, o := range r.options() {
		_, err = fmt.Fprintf(w, "\n%s: %s", o[0], o[1])
	}
	_, last := fmt.Fprintf(w, "\n\n%s\n", r.Machine)
	return errors.Join(err, last)
}

func writeRow(w io.Writer, r Result, group []Result) {
	fmt.Fprintln(w, strings.Join(cells(r, group), "\t")+"\t")
}

// comparison returns the ratio to the baseline with its interval, or why
// there is none.
func comparison(r Result, group []Result) string {
	if r.Refused != "" {
		return "not compared: " + r.Refused
	}
	i := slices.IndexFunc(group, func(other Result) bool { return other.Contender == r.Baseline })
	if i < 0 || group[i].Refused != "" {
		return "no baseline"
	}
	if len(r.Rounds) == 0 {
		return "not measured"
	}
	ratio := r.Ratio(group[i])
	text := fmt.Sprintf("%.2f× (%.2f–%.2f) %s", ratio.Median, ratio.Min, ratio.Max, r.Baseline)
	for _, name := range slices.Sorted(maps.Keys(r.Rounds[0].Figures)) {
		figures := r.each(func(round Round) float64 { return round.Figures[name] })
		text += fmt.Sprintf(", %s %.2f", name, measure.SpreadOf(figures).Median)
	}
	return text
}

// groups returns the results that share scenario and callers, in order of
// first appearance.
func (r Run) groups() [][]Result {
	type group struct {
		scenario string
		callers  int
	}
	var order []group
	members := map[group][]Result{}
	for _, result := range r.Results {
		key := group{result.Scenario, result.Callers}
		if members[key] == nil {
			order = append(order, key)
		}
		members[key] = append(members[key], result)
	}
	all := make([][]Result, len(order))
	for i, key := range order {
		all[i] = members[key]
	}
	return all
}

// Latency shows nanoseconds with three digits.
func Latency(ns float64) string {
	switch d := time.Duration(ns); {
	case d == 0:
		return "–"
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.3g ms", ns/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", ns/1e6)
	default:
		return fmt.Sprintf("%.3g s", ns/1e9)
	}
}
