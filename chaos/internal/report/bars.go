package report

import (
	"fmt"
	"html"
	"math"
	"slices"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
)

// mostBars is how many bars a row has at most: of a longer run each stands for
// several seconds.
const mostBars = 360

// leastHeight keeps visible what a bar of many seconds has little of.
const leastHeight = 1.5

// part is a part of a bar: its class and size.
type part struct {
	class string
	size  int
}

// bar is some seconds of a row, with the sum of what was in them.
type bar struct {
	from, to time.Duration
	parts    []part
}

func (b bar) perSecond(size int) float64 { return float64(size) / (b.to - b.from).Seconds() }

func (b bar) height() (perSecond float64) {
	for _, p := range b.parts {
		perSecond += b.perSecond(p.size)
	}
	return perSecond
}

// title says what a part of a bar stands for.
func (b bar) title(p part) string {
	if b.to-b.from == time.Second {
		return fmt.Sprintf("%s: %s %d", short(b.from), p.class, p.size)
	}
	return fmt.Sprintf("%s to %s: %s %d, %.1f per second", short(b.from), short(b.to), p.class, p.size, b.perSecond(p.size))
}

// barsOf puts as many seconds into each bar as it takes to have few enough.
func barsOf(seconds []check.Second, parts func(check.Second) []part) []bar {
	width := max(1, (len(seconds)+mostBars-1)/mostBars)
	var bars []bar
	for i := 0; i < len(seconds); i += width {
		end := min(i+width, len(seconds))
		var sum check.Second
		for _, s := range seconds[i:end] {
			sum = sum.Plus(s)
		}
		bars = append(bars, bar{time.Duration(i) * time.Second, time.Duration(end) * time.Second, parts(sum)})
	}
	return bars
}

// bars draws a row of stacked bars. The few highest are cut off, so that a
// burst does not flatten the others; the first part is never cut.
func (p *picture) bars(name string, seconds []check.Second, parts func(check.Second) []part) {
	bars := barsOf(seconds, parts)
	heights := []float64{1}
	for _, b := range bars {
		heights = append(heights, b.height())
	}
	slices.Sort(heights)
	most := math.Ceil(max(1, heights[(len(heights)*95+99)/100-1]*5/4))
	p.label(name, p.y+12)
	p.label(fmt.Sprintf("to %.0f", most), p.y+28)
	for _, b := range bars {
		bottom := p.y + rowHeight
		for _, part := range b.parts {
			h := min(max(leastHeight, rowHeight*b.perSecond(part.size)/most), bottom-p.y)
			if part.size == 0 || h <= 0 {
				continue
			}
			bottom -= h
			fmt.Fprintf(p, `<rect class="%s" x="%.2f" y="%.1f" width="%.2f" height="%.1f"><title>%s</title></rect>`,
				part.class, p.x(b.from), bottom, p.x(b.to)-p.x(b.from), h, html.EscapeString(b.title(part)))
		}
	}
	p.y += rowHeight + rowGap
}
