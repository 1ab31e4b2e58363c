package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Parse(pageSource))

// pageGroup is what the page shows of one scenario under one load.
type pageGroup struct {
	Title                             string
	Bars, Latencies, Timeline, Course template.HTML
	Rows                              [][]string
}

// WriteHTML writes the run as one page that needs nothing else.
func (r Run) WriteHTML(w io.Writer) error {
	var groups []pageGroup
	for _, group := range r.groups() {
		g := pageGroup{
			Title: title(group),
			// Drawn here; every text in them is escaped.
			Bars:      template.HTML(Bars(group)),
			Latencies: template.HTML(Latencies(group)),
		}
		if group[0].Fault != nil && len(group[0].Rounds[0].Timeline) > 0 {
			g.Timeline = template.HTML(Timeline(group))
		}
		if len(group) == 1 && len(group[0].Rounds) > 1 {
			g.Course = template.HTML(Course(group[0]))
		}
		for _, result := range group {
			g.Rows = append(g.Rows, cells(result, group))
		}
		groups = append(groups, g)
	}
	return page.Execute(w, struct {
		Run
		Groups  []pageGroup
		Options [][2]string
	}{r, groups, r.options()})
}

// cells are a result's row, as in the table for terminals.
func cells(r Result, group []Result) []string {
	rate, p50, p99 := measure.SpreadOf(r.Rates()), measure.SpreadOf(r.P50s()), measure.SpreadOf(r.P99s())
	return []string{
		r.Contender, fmt.Sprintf("%.0f (%.0f–%.0f)", rate.Median, rate.Min, rate.Max), Latency(p50.Median), Latency(p99.Median),
		Latency(measure.SpreadOf(r.CPUs()).Median), fmt.Sprint(r.Checks()), fmt.Sprint(r.Failed()), comparison(r, group),
	}
}

// options says how each contender was used, in order of first appearance.
func (r Run) options() [][2]string {
	said := map[string]bool{}
	var all [][2]string
	for _, result := range r.Results {
		if !said[result.Contender] && result.Options != "" {
			all = append(all, [2]string{result.Contender, result.Options})
		}
		said[result.Contender] = true
	}
	return all
}
