package report

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
)

// Sizes of the picture, in its own units.
const (
	pictureWidth = 1000.0
	leftMargin   = 120.0
	rightMargin  = 12.0
	rowHeight    = 60.0
	laneHeight   = 14.0
	rowGap       = 14.0
)

// picture is the time line in the making.
type picture struct {
	strings.Builder
	end time.Duration
	y   float64
}

// timeline draws the run from left to right: throughput, share of fresh keys
// served, routes, breakers, faults.
func (r Report) timeline() template.HTML {
	p := &picture{y: rowGap}
	seconds := r.Result.Figures.Seconds
	p.end = time.Duration(max(1, len(seconds))) * time.Second
	p.bars("answered /s", seconds, func(s check.Second) []part { return []part{{"all", s.All}} })
	p.bars("fresh keys /s", seconds, func(s check.Second) []part { return []part{{"failed", s.Requests - s.Served}, {"served", s.Served}} })
	if f := r.Result.Figures; f.Primary+f.Fallback > 0 {
		p.bars("starts /s", seconds, r.starts)
	}
	if !r.Setup.External() {
		for i := range r.Setup.Instances {
			p.breaker(i, r.history)
		}
		p.y += rowGap
	}
	p.faults(r.history.Faults)
	p.axis()
	height := p.y + 24
	var outages strings.Builder
	for _, o := range r.Result.Figures.Outages {
		fmt.Fprintf(&outages, `<rect class="outage" x="%.1f" y="0" width="%.1f" height="%.1f"><title>no Redis node up, %s to %s</title></rect>`,
			p.x(o.From), p.x(o.To)-p.x(o.From), p.y, round(o.From), round(o.To))
	}
	// Every text below is escaped where it is drawn; the rest are numbers.
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 %.0f %.0f" role="img" aria-label="time line of the run">%s%s</svg>`,
		pictureWidth, height, outages.String(), p.String()))
}

// starts of handlers by route, which somebody else's service does not tell.
func (r Report) starts(s check.Second) []part {
	if r.Setup.External() {
		return []part{{"all", s.Primary + s.Fallback}}
	}
	return []part{{"fallback", s.Fallback}, {"primary", s.Primary}}
}

func (p *picture) x(t time.Duration) float64 {
	return leftMargin + (pictureWidth-leftMargin-rightMargin)*float64(min(t, p.end))/float64(p.end)
}

func (p *picture) label(text string, y float64) {
	fmt.Fprintf(p, `<text class="label" x="%.0f" y="%.1f">%s</text>`, leftMargin-8, y, html.EscapeString(text))
}

// axis draws the seconds below everything.
func (p *picture) axis() {
	step := time.Second
	for _, wider := range []time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour} {
		if p.end/step > 12 {
			step = wider
		}
	}
	for t := time.Duration(0); t <= p.end; t += step {
		fmt.Fprintf(p, `<line x1="%[1]f" x2="%[1]f" y1="0" y2="%[2]f"/><text class="tick" x="%[1]f" y="%[3]f">%[4]s</text>`, p.x(t), p.y, p.y+16, short(t))
	}
}
