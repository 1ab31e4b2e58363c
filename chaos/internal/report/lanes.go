package report

import (
	"cmp"
	"fmt"
	"html"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// leastWidth of what is drawn in a lane. What would be drawn over one another
// in it is drawn as one, so that a long run with many faults stays a page that
// a browser can show.
const leastWidth = 1.5

// narrow reports whether a time takes no more than the least width.
func (p *picture) narrow(from, to time.Duration) bool { return p.x(to)-p.x(from) <= leastWidth }

// band draws a stretch of a lane.
func (p *picture) band(class string, from, to time.Duration, title string) {
	fmt.Fprintf(p, `<rect class="%s" x="%.2f" y="%.1f" width="%.2f" height="%.0f"><title>%s</title></rect>`,
		html.EscapeString(class), p.x(from), p.y, max(leastWidth, p.x(to)-p.x(from)), laneHeight-3, html.EscapeString(title))
}

// together cuts a list where what follows does not belong to the first of its
// piece any more.
func together[T any](list []T, belongs func(first, next T) bool) (pieces [][]T) {
	for len(list) > 0 {
		n := 1
		for n < len(list) && belongs(list[0], list[n]) {
			n++
		}
		pieces, list = append(pieces, list[:n]), list[n:]
	}
	return pieces
}

// A state is what a breaker was in for a while.
type state struct {
	at, until time.Duration
	name      string
}

// breakerStates from the best to the worst, which is drawn last and hides the
// others where there is no room for all.
var breakerStates = []string{"closed", "half-open", "open"}

// breaker draws the states of an instance's breaker as a lane.
func (p *picture) breaker(number int, h *history.History) {
	p.label(fmt.Sprintf("instance-%d", number), p.y+laneHeight-3)
	pieces := together(p.states(number, h), func(first, next state) bool { return p.narrow(first.at, next.until) })
	for _, name := range breakerStates {
		for _, piece := range pieces {
			if from, until := piece[0].at, piece[len(piece)-1].until; worst(piece) == name {
				p.band("breaker "+name, from, until, fmt.Sprintf("breaker %s, %s to %s", statesIn(piece), round(from), round(until)))
			}
		}
	}
	p.y += laneHeight
}

func worst(piece []state) string {
	return slices.MaxFunc(piece, func(a, b state) int {
		return cmp.Compare(slices.Index(breakerStates, a.name), slices.Index(breakerStates, b.name))
	}).name
}

// statesIn names the states of a piece, each once.
func statesIn(piece []state) string {
	var names []string
	for _, s := range piece {
		if !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, " and ")
}

// states are those of an instance's breaker. A new process begins with a
// closed one.
func (p *picture) states(number int, h *history.History) []state {
	name := fmt.Sprintf("instance-%d", number)
	states := []state{{name: "closed"}}
	for _, e := range h.Effects {
		if e.Kind == history.Breaker && e.Instance == name {
			states = append(states, state{at: e.At, name: e.Route})
		}
	}
	for _, f := range h.Faults {
		starts := f.Kind == history.StartInstance || f.Kind == history.SplitNodes || f.Kind == history.JoinNodes
		if starts && f.Instance == number {
			states = append(states, state{at: f.Done, name: "closed"})
		}
	}
	slices.SortStableFunc(states, func(a, b state) int { return cmp.Compare(a.at, b.at) })
	for i := range states {
		states[i].until = p.end
		if i+1 < len(states) {
			states[i].until = states[i+1].at
		}
	}
	return states
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

// faults draws a lane for each thing that was broken. What met nothing is
// drawn first: it must not hide what did.
func (p *picture) faults(all []history.Fault) {
	missed, met := map[string][]span{}, map[string][]span{}
	names := map[string]bool{}
	for _, s := range spans(all) {
		name := lane(s.Action)
		names[name] = true
		if s.Missed {
			missed[name] = append(missed[name], s)
		} else {
			met[name] = append(met[name], s)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		p.label(name, p.y+laneHeight-3)
		p.spans("fault missed", missed[name])
		p.spans("fault", met[name])
		p.y += laneHeight
	}
}

func (p *picture) spans(class string, list []span) {
	for _, piece := range together(list, func(first, next span) bool { return p.narrow(first.At, next.until) }) {
		until := slices.MaxFunc(piece, func(a, b span) int { return cmp.Compare(a.until, b.until) }).until
		p.band(class, piece[0].At, until, spansTitle(piece, until))
	}
}

// spansTitle says how one fault was seen to have happened; of several, which
// they were.
func spansTitle(piece []span, until time.Duration) string {
	first := piece[0]
	if len(piece) == 1 {
		return fmt.Sprintf("%s, %s to %s: %s", first.Action, round(first.At), round(until), first.Proof)
	}
	count := map[string]int{}
	for _, s := range piece {
		count[s.Action.String()]++
	}
	var what []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		what = append(what, fmt.Sprintf("%d × %s", count[name], name))
	}
	return fmt.Sprintf("%s to %s: %s", round(first.At), round(until), strings.Join(what, ", "))
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
