package report

import (
	"fmt"
	"html"
	"math"
	"strings"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

// Sizes of the pictures, in user units.
const (
	svgWidth  = 720
	labelWide = 170
	figure    = 150 // room for the figures at the right
	barHeight = 16
	rowHeight = 24
)

// svgStyle makes a picture readable on light and dark ground and on paper.
const svgStyle = `<style>
text{font:12px system-ui,sans-serif;fill:#222}
.small{font-size:10px;fill:#666}.ours{fill:#16808a}.other{fill:#7f8c9b}.line{stroke:#999;fill:none}.course{stroke:#16808a;stroke-width:1.5;fill:none}
.grid{stroke:#ddd}.fault{fill:#e67e22;opacity:.18}.failed{fill:#c0392b}.whisker{stroke:#222}
@media (prefers-color-scheme:dark){text{fill:#ddd}.small{fill:#999}.grid{stroke:#444}.whisker{stroke:#eee}.other{fill:#8fa1b3}.ours{fill:#2fb5c0}}
</style>`

// ours reports whether a contender is this project's.
func ours(contender string) bool { return strings.HasPrefix(contender, "redfence") }

func class(contender string) string {
	if ours(contender) {
		return "ours"
	}
	return "other"
}

// canvas collects a picture.
type canvas struct{ strings.Builder }

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(c, format+"\n", args...) }

// text places escaped text.
func (c *canvas) text(x, y float64, class, anchor, text string) {
	c.add(`<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>`, x, y, class, anchor, html.EscapeString(text))
}

// picture wraps the drawing; title is for those who cannot see it.
func (c *canvas) picture(height float64, title string) string {
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %.0f" role="img" aria-label="%s">%s
%s</svg>`, svgWidth, height, html.EscapeString(title), svgStyle, c.String())
}

// Bars draws operations per second, a bar for each result, with the extremes
// of the rounds and the ratio to the baseline.
func Bars(group []Result) string {
	var c canvas
	most := 1.0
	for _, r := range group {
		most = max(most, measure.SpreadOf(r.Rates()).Max)
	}
	scale := float64(svgWidth-labelWide-figure) / most
	y := 20.0
	c.text(0, 12, "", "start", title(group)+", operations per second")
	for _, r := range group {
		rate := measure.SpreadOf(r.Rates())
		middle := y + barHeight/2 + 4
		c.text(labelWide-8, middle, "", "end", r.Contender)
		c.add(`<rect x="%d" y="%.1f" width="%.1f" height="%d" class="%s"/>`, labelWide, y, rate.Median*scale, barHeight, class(r.Contender))
		c.add(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="whisker"/>`, labelWide+rate.Min*scale, labelWide+rate.Max*scale, y+barHeight/2, y+barHeight/2)
		c.text(labelWide+rate.Max*scale+6, middle, "", "start", figureOf(r, rate, group))
		y += rowHeight
	}
	return c.picture(y, title(group))
}

func figureOf(r Result, rate measure.Spread, group []Result) string {
	text := fmt.Sprintf("%.0f", rate.Median)
	for _, other := range group {
		if other.Contender == r.Baseline && other.Contender != r.Contender && r.Refused == "" {
			text += fmt.Sprintf(" (%.1f× %s)", r.Ratio(other).Median, r.Baseline)
		}
	}
	if r.Refused != "" {
		text += " (not compared)"
	}
	return text
}

func title(group []Result) string {
	if group[0].Callers == 1 {
		return group[0].Scenario + ", one caller"
	}
	return fmt.Sprintf("%s, %d callers", group[0].Scenario, group[0].Callers)
}

// Latencies draws median to maximum of each result on a logarithmic axis.
func Latencies(group []Result) string {
	var c canvas
	low, high := latencyRange(group)
	wide := float64(svgWidth - labelWide - 20)
	at := func(ns float64) float64 {
		return labelWide + wide*(math.Log10(max(ns, low))-math.Log10(low))/(math.Log10(high)-math.Log10(low))
	}
	height := float64(len(group)*rowHeight + 24)
	c.text(0, 12, "", "start", title(group)+", latency: p50, p90, p99, p99.9, longest")
	for decade := low; decade <= high*1.001; decade *= 10 {
		c.add(`<line x1="%.1f" x2="%.1f" y1="20" y2="%.1f" class="grid"/>`, at(decade), at(decade), height)
		c.text(at(decade), height+12, "small", "middle", Latency(decade))
	}
	for i, r := range group {
		y := float64(i*rowHeight) + 34
		c.text(labelWide-8, y+4, "", "end", r.Contender)
		quantiles := r.quantiles()
		c.add(`<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f" class="line"/>`, at(quantiles[0]), at(quantiles[len(quantiles)-1]), y, y)
		for j, q := range quantiles {
			c.add(`<circle cx="%.1f" cy="%.1f" r="%.1f" class="%s"><title>%s</title></circle>`, at(q), y, 6-float64(j), class(r.Contender), Latency(q))
		}
	}
	return c.picture(height+18, title(group)+", latency")
}

// quantiles are the medians over the rounds, in nanoseconds.
func (r Result) quantiles() []float64 {
	median := func(f func(Round) float64) float64 { return measure.SpreadOf(r.each(f)).Median }
	return []float64{
		median(func(r Round) float64 { return float64(r.P50) }),
		median(func(r Round) float64 { return float64(r.P90) }),
		median(func(r Round) float64 { return float64(r.P99) }),
		median(func(r Round) float64 { return float64(r.P999) }),
		median(func(r Round) float64 { return float64(r.Max) }),
	}
}

// latencyRange returns whole decades around all latencies.
func latencyRange(group []Result) (low, high float64) {
	low, high = 1e9, 1e5
	for _, r := range group {
		for _, q := range r.quantiles() {
			if q > 0 {
				low, high = min(low, q), max(high, q)
			}
		}
	}
	low = math.Pow(10, math.Floor(math.Log10(low)))
	high = math.Pow(10, math.Ceil(math.Log10(high)))
	return low, max(high, low*10)
}

// Timeline draws what ended in each tenth of a second, with the fault behind
// it and failures in red.
func Timeline(group []Result) string {
	const high = 60.0
	var c canvas
	most := int64(1)
	for _, r := range group {
		for _, tick := range r.Rounds[0].Timeline {
			most = max(most, tick.Ops+tick.Failed)
		}
	}
	wide := float64(svgWidth - labelWide - 20)
	y := 20.0
	c.text(0, 12, "", "start", title(group)+", operations per tenth of a second; the fault is shaded, failures are red")
	for _, r := range group {
		ticks := r.Rounds[0].Timeline
		step := wide / float64(max(1, len(ticks)))
		perSecond := step * float64(1e9/measure.TickLength)
		c.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.0f" class="fault"/>`, labelWide+r.Fault.From*perSecond, y, (r.Fault.To-r.Fault.From)*perSecond, high)
		c.text(labelWide-8, y+high/2, "", "end", r.Contender)
		for i, tick := range ticks {
			x := labelWide + float64(i)*step
			bar := high * float64(tick.Ops) / float64(most)
			failed := high * float64(tick.Failed) / float64(most)
			c.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="%s"/>`, x, y+high-bar, step*0.9, bar, class(r.Contender))
			if tick.Failed > 0 {
				c.add(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" class="failed"/>`, x, y+high-bar-max(failed, 2), step*0.9, max(failed, 2))
			}
		}
		c.add(`<line x1="%d" x2="%.1f" y1="%.1f" y2="%.1f" class="grid"/>`, labelWide, labelWide+wide, y+high, y+high)
		y += high + 12
	}
	return c.picture(y, title(group))
}
