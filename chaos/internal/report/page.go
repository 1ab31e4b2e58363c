package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
)

//go:embed page.html
var pageSource string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"round":   round,
	"percent": func(share float64) string { return fmt.Sprintf("%.3f %%", 100*share) },
	"count":   func(r Report, name string) int { return r.count(name) },
	"unmade":  func(r Report, name string) string { return r.unmade(name) },
	"upper":   strings.ToUpper,
	"few":     func(outages []check.Outage) bool { return len(outages) <= mostRows },
}).Parse(pageSource))

// mostRows is how many outages are a table that is read; more are folded up.
const mostRows = 20

// mostShown is how many violations of a check the page tells with their
// histories.
const mostShown = 3

// finding is a violation with its history.
type finding struct {
	check.Violation
	Story string
	// Picture is the file that shows the key's history; empty: none.
	Picture string
}

// findings are the first violations of each check, and how many more there are.
func (r Report) findings() (list []finding, more int) {
	shown := map[string]int{}
	pictures := r.pictures()
	for _, v := range r.Result.Violations {
		if shown[v.Check]++; shown[v.Check] > mostShown {
			more++
			continue
		}
		f := finding{Violation: v, Picture: pictures[v.Key]}
		if v.Key != "" {
			var b strings.Builder
			r.story(&b, v.Key, v.At)
			f.Story = b.String()
		}
		list = append(list, f)
	}
	return list, more
}

// HTML writes the report as one page that needs nothing else.
func (r Report) HTML(w io.Writer) error {
	found, more := r.findings()
	return page.Execute(w, struct {
		Report
		Figures  check.Figures
		Kinds    []check.Kind
		Findings []finding
		More     int
		Timeline template.HTML
		Command  string
		Measured bool
		Bounds   []bound
	}{r, r.Result.Figures, check.Kinds(), found, more, r.timeline(), r.Command(), r.Result.Figures.Recovery.Outages > 0, r.bounds()})
}

// bound is a row of the table of recovery.
type bound struct {
	Name          string
	P50, P99, Max time.Duration
	Count         int
	Limit         string
}

func (r Report) bounds() []bound {
	rec := r.Result.Figures.Recovery
	return []bound{
		{"all nodes killed → fresh keys served again", rec.Served.P50, rec.Served.P99, rec.Served.Max, rec.Served.Count, "1 s at p99"},
		{"quorum back → primary route", rec.Primary.P50, rec.Primary.P99, rec.Primary.Max, rec.Primary.Count, "3 s at p99"},
	}
}
