package report

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/history"
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
	p.bars("fresh keys /s", seconds, func(s check.Second) []part { return []part{{"served", s.Served}, {"failed", s.Requests - s.Served}} })
	p.bars("starts /s", seconds, func(s check.Second) []part { return []part{{"primary", s.Primary}, {"fallback", s.Fallback}} })
	for i := range r.Setup.Instances {
		p.breaker(i, r.history)
	}
	p.y += rowGap
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

func (p *picture) x(t time.Duration) float64 {
	return leftMargin + (pictureWidth-leftMargin-rightMargin)*float64(min(t, p.end))/float64(p.end)
}

func (p *picture) label(text string, y float64) {
	fmt.Fprintf(p, `<text class="label" x="%.0f" y="%.1f">%s</text>`, leftMargin-8, y, html.EscapeString(text))
}

// part is a part of a bar: its class and size.
type part struct {
	class string
	size  int
}

// bars draws a row of stacked bars, one per second. The few highest are cut
// off, so that a burst does not flatten the others.
func (p *picture) bars(name string, seconds []check.Second, parts func(check.Second) []part) {
	totals := []int{1}
	for _, s := range seconds {
		total := 0
		for _, part := range parts(s) {
			total += part.size
		}
		totals = append(totals, total)
	}
	slices.Sort(totals)
	most := max(1, totals[(len(totals)*95+99)/100-1]*5/4)
	p.label(name, p.y+12)
	p.label(fmt.Sprintf("to %d", most), p.y+28)
	for i, s := range seconds {
		at := time.Duration(i) * time.Second
		bottom := p.y + rowHeight
		for _, part := range parts(s) {
			h := min(rowHeight*float64(part.size)/float64(most), bottom-p.y)
			if bottom -= h; h > 0 {
				fmt.Fprintf(p, `<rect class="%s" x="%.2f" y="%.1f" width="%.2f" height="%.1f"><title>%d s: %s %d</title></rect>`,
					part.class, p.x(at), bottom, p.x(at+time.Second)-p.x(at), h, i, part.class, part.size)
			}
		}
	}
	p.y += rowHeight + rowGap
}

// breaker draws the states of an instance's breaker as a lane. A new process
// begins with a closed one.
func (p *picture) breaker(number int, h *history.History) {
	name := fmt.Sprintf("instance-%d", number)
	changes := []moment{{0, "closed"}}
	for _, e := range h.Effects {
		if e.Kind == history.Breaker && e.Instance == name {
			changes = append(changes, moment{e.At, e.Route})
		}
	}
	for _, f := range h.Faults {
		starts := f.Kind == history.StartInstance || f.Kind == history.SplitNodes || f.Kind == history.JoinNodes
		if starts && f.Instance == number {
			changes = append(changes, moment{f.Done, "closed"})
		}
	}
	slices.SortStableFunc(changes, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	p.label(name, p.y+laneHeight-3)
	for i, c := range changes {
		to := p.end
		if i+1 < len(changes) {
			to = changes[i+1].at
		}
		fmt.Fprintf(p, `<rect class="breaker %[1]s" x="%.2[2]f" y="%.1[3]f" width="%.2[4]f" height="%.0[5]f"><title>breaker %[1]s, %[6]s to %[7]s</title></rect>`,
			html.EscapeString(c.text), p.x(c.at), p.y, max(0.5, p.x(to)-p.x(c.at)), laneHeight-3, round(c.at), round(to))
	}
	p.y += laneHeight
}

// A span is a fault from when it was done until it was mended.
type span struct {
	history.Fault
	until time.Duration
}

func spans(faults []history.Fault) []span {
	var list []span
	for i, f := range faults {
		if f.Mends() {
			continue
		}
		s := span{f, f.Done}
		mended := f.Action
		mended.Kind = f.MendedBy()
		if k := slices.IndexFunc(faults[i:], func(g history.Fault) bool { return g.Action == mended }); mended.Kind != "" && k >= 0 {
			s.until = faults[i+k].Done
		}
		list = append(list, s)
	}
	return list
}

// faults draws a lane for each thing that was broken.
func (p *picture) faults(all []history.Fault) {
	lanes := map[string][]span{}
	for _, s := range spans(all) {
		lanes[lane(s.Action)] = append(lanes[lane(s.Action)], s)
	}
	names := make([]string, 0, len(lanes))
	for name := range lanes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p.label(name, p.y+laneHeight-3)
		for _, s := range lanes[name] {
			class := "fault"
			if s.Missed {
				class = "fault missed"
			}
			fmt.Fprintf(p, `<rect class="%s" x="%.2f" y="%.1f" width="%.2f" height="%.0f"><title>%s, %s to %s: %s</title></rect>`,
				class, p.x(s.At), p.y, max(1.5, p.x(s.until)-p.x(s.At)), laneHeight-3,
				html.EscapeString(s.Action.String()), round(s.At), round(s.until), html.EscapeString(s.Proof))
		}
		p.y += laneHeight
	}
}

func lane(a history.Action) string {
	switch a.On() {
	case "node":
		return fmt.Sprintf("node %d", a.Node)
	case "postgres":
		return "Postgres"
	}
	return fmt.Sprintf("instance %d", a.Instance)
}

// axis draws the seconds below everything.
func (p *picture) axis() {
	step := time.Second
	for _, wider := range []time.Duration{5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute} {
		if p.end/step > 12 {
			step = wider
		}
	}
	for t := time.Duration(0); t <= p.end; t += step {
		fmt.Fprintf(p, `<line x1="%[1]f" x2="%[1]f" y1="0" y2="%[2]f"/><text class="tick" x="%[1]f" y="%[3]f">%[4]s</text>`, p.x(t), p.y, p.y+16, short(t))
	}
}
