package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// A hold is a time in which somebody certainly held a plain lock: from the
// return of the acquire until the release was about to be sent, or the
// validity ended, whichever came first. Of a holder that died the last line
// counts.
type hold struct {
	history.Effect // its first line
	until          time.Duration
}

// holdsOf are the holds of a lock in the order in which they began.
func (j *judge) holdsOf(name string) []hold {
	byHolder := map[string]*hold{}
	var all []*hold
	for _, e := range j.effects[name] {
		h := byHolder[e.Execution]
		if h == nil {
			h = &hold{Effect: e}
			byHolder[e.Execution] = h
			all = append(all, h)
		}
		h.until = max(h.until, min(e.Clock, e.Valid))
	}
	slices.SortStableFunc(all, func(a, b *hold) int { return cmp.Compare(a.Clock, b.Clock) })
	holds := make([]hold, len(all))
	for i, h := range all {
		holds[i] = *h
	}
	return holds
}

// exclusion: no two hold a plain lock at the same time.
func exclusion(j *judge) {
	for _, name := range j.lockNames() {
		var last hold
		for _, h := range j.holdsOf(name) {
			if last.Execution != "" && h.Clock < last.until && !j.evicted(last, h) {
				j.reportAt(h.Clock, Safety, "lock held twice", name, "%s from %s to %s (fence %d), and %s from %s (fence %d)",
					last.Instance, seconds(last.Clock), seconds(last.until), last.Fence, h.Instance, seconds(h.Clock), h.Fence)
				break
			}
			if h.until > last.until {
				last = h
			}
		}
	}
}

// evicted reports whether a node has dropped locks for want of memory, which a
// Redlock does not survive: its nodes must never evict.
func (j *judge) evicted(one, two hold) bool {
	return one.Locker == history.Redlock && slices.ContainsFunc(j.Faults, func(f history.Fault) bool {
		return f.Kind == history.EvictNode && f.At <= two.Clock && f.Done >= one.Clock-time.Second
	})
}

// lockFences: each later holder of a plain lock has a larger fence, while a
// majority of the nodes keeps its memory.
func lockFences(j *judge) {
	for _, name := range j.lockNames() {
		var last hold
		for _, h := range j.holdsOf(name) {
			if last.Execution != "" && h.Fence <= last.Fence && !j.forgotten(last, h) {
				j.reportAt(h.Clock, Safety, "fence order", name, "%s acquired at %s with fence %d, after %d at %s",
					h.Instance, seconds(h.Clock), h.Fence, last.Fence, seconds(last.Clock))
				break
			}
			last = h
		}
	}
}

// forgotten reports whether a majority of the nodes may have forgotten the
// fence of a Redlock before the next one was drawn.
func (j *judge) forgotten(one, two hold) bool {
	if one.Locker != history.Redlock {
		return false
	}
	lost := map[int]bool{}
	for _, f := range j.Faults {
		if f.LosesMemory() && f.At <= two.At && f.Done >= one.Clock-time.Second {
			lost[f.Node] = true
		}
	}
	return len(lost) > j.Setup.Nodes/2
}

// leftovers: no lock outlives its holder for ever.
func leftovers(j *judge) {
	for _, name := range j.Locks {
		j.report(Liveness, "lock left", "", "%s, long after the last request", name)
	}
}
