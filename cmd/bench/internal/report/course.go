package report

import (
	"fmt"
	"maps"
	"slices"
)

// courseHeight is the room of one line of a course, in user units.
const courseHeight = 44

// Course draws how a result went from round to round: rate, p99 and what only
// its scenario has, each from 0 to its largest.
func Course(r Result) string {
	var c canvas
	y := 20.0
	c.text(0, 12, "", "start", title([]Result{r})+", "+r.Contender+", round by round, each line from 0 to its largest")
	draw := func(name string, values []float64, show func(float64) string) {
		most := slices.Max(values)
		c.text(labelWide-8, y+courseHeight/2, "", "end", name)
		c.text(svgWidth-figure+8, y+courseHeight/2, "", "start", "at most "+show(most))
		c.add(`<polyline points="%s" class="course"/>`, points(values, most, y))
		c.add(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" class="grid"/>`, labelWide, svgWidth-figure, y+courseHeight, y+courseHeight)
		y += courseHeight + 10
	}
	plain := func(x float64) string { return fmt.Sprintf("%.0f", x) }
	draw("operations per second", r.Rates(), plain)
	draw("p99", r.P99s(), Latency)
	for _, name := range slices.Sorted(maps.Keys(r.Rounds[0].Figures)) {
		draw(name, r.each(func(round Round) float64 { return round.Figures[name] }), plain)
	}
	return c.picture(y, title([]Result{r})+", round by round")
}

// points are the corners of a line from the first value to the last.
func points(values []float64, most, y float64) string {
	step := float64(svgWidth-labelWide-figure) / float64(max(1, len(values)-1))
	var text string
	for i, value := range values {
		text += fmt.Sprintf("%.1f,%.1f ", labelWide+float64(i)*step, y+courseHeight*(1-value/max(most, 1e-9)))
	}
	return text
}
