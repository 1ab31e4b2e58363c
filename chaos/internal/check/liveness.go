package check

import (
	"slices"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// settleBound is how long after the last fault everything may take to be as
// before it.
const settleBound = 15 * time.Second

// primary is the route of an instance that trusts its Redis nodes.
const primary = "primary"

// answers: every key that was begun is answered in the end.
func answers(j *judge) {
	for _, key := range j.keys {
		ops := j.ops[key]
		if _, ok := j.firstAnswer(key); !ok && !isProbe(ops) && !j.mayBeUnknown(key) {
			last := ops[len(ops)-1]
			j.report(Liveness, "never answered", key, "%d requests from %s to %s; the last got %d %s%s",
				len(ops), seconds(ops[0].Sent), seconds(last.Got), last.Status, last.Body, last.Err)
		}
	}
}

// mayBeUnknown reports whether nobody knows how a key ended, and a fault of
// this run explains it.
func (j *judge) mayBeUnknown(key string) bool {
	if j.rows[key].State != "unknown" && !j.saysUnknown(key) {
		return false
	}
	return j.panics(key) || slices.ContainsFunc(j.Faults, func(f history.Fault) bool { return f.LosesOutcomes() })
}

// panics reports whether the handler of a key was asked to.
func (j *judge) panics(key string) bool {
	return slices.ContainsFunc(j.ops[key], func(op history.Op) bool { return op.Asked == history.Panics })
}

// probes: soon after the last fault every instance serves fresh keys by the
// primary route again.
func probes(j *judge) {
	for instance := range j.Setup.Instances {
		if _, ok := j.backOnPrimary(instance); !ok {
			j.report(Liveness, "not back", "", "instance %d has served no fresh key %swithin %v of the last fault", instance, j.byRoute(), settleBound)
		}
	}
}

// byRoute is what is asked of an instance; of somebody else's service no route
// is known.
func (j *judge) byRoute() string {
	if j.Setup.External() {
		return ""
	}
	return "by the primary route "
}

// backOnPrimary returns how long after the last fault an instance first served
// a probe by the primary route.
func (j *judge) backOnPrimary(instance int) (time.Duration, bool) {
	if j.Setup.External() {
		return j.servesAgain(instance)
	}
	for _, key := range j.keys {
		op := j.ops[key][0]
		if op.Kind != history.Probe || op.Instance != instance || !op.OK() || op.Got > j.Healed+settleBound {
			continue
		}
		for _, e := range ofKind(j.effects[key], history.Start) {
			if e.Route == primary {
				return op.Got - j.Healed, true
			}
		}
	}
	return 0, false
}

// An Outage is a time in which no Redis node was up.
type Outage struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// Fresh is how many keys were first sent in it, Served how many of them
	// were answered before it ended.
	Fresh  int `json:"fresh"`
	Served int `json:"served"`
	// Replayed is how many requests for keys that were acknowledged before it
	// were answered in it, of Asked that ended in it.
	Asked    int `json:"asked"`
	Replayed int `json:"replayed"`
}

// totalOutages finds the outages in the faults. They begin when the last kill
// is proven and end when the first restart begins.
func totalOutages(h *history.History) []Outage {
	var found []Outage
	down := map[int]bool{}
	var from time.Duration
	for _, f := range h.Faults {
		switch f.Kind {
		case history.KillNode:
			down[f.Node] = true
			if len(down) == h.Setup.Nodes {
				from = f.Done
			}
		case history.RestartNode:
			if len(down) == h.Setup.Nodes {
				found = append(found, Outage{From: from, To: f.At})
			}
			delete(down, f.Node)
		}
	}
	return found
}

// longEnough outages must show both kinds of requests.
const longEnough = time.Second

// outages: while no Redis node is up, fresh keys are served and finished ones
// are replayed.
func outages(j *judge) {
	for i := range j.outages {
		o := &j.outages[i]
		j.measure(o)
		if o.To-o.From < longEnough || j.otherFaults(*o) {
			continue
		}
		switch {
		case o.Fresh == 0:
			j.report(Invalid, "outage without fresh keys", "", "none was first sent from %s to %s", seconds(o.From), seconds(o.To))
		case o.Served == 0:
			j.report(Liveness, "outage not served", "", "none of %d fresh keys was answered from %s to %s", o.Fresh, seconds(o.From), seconds(o.To))
		}
		switch {
		case o.Asked == 0:
			j.report(Invalid, "outage without retries", "", "no finished key was asked for from %s to %s", seconds(o.From), seconds(o.To))
		case o.Replayed == 0:
			j.report(Liveness, "outage without replays", "", "none of %d requests for finished keys was answered from %s to %s", o.Asked, seconds(o.From), seconds(o.To))
		}
	}
}

// otherFaults reports whether more than the nodes was broken in an outage, or
// shortly before.
func (j *judge) otherFaults(o Outage) bool {
	const shortly = 10 * time.Second
	return slices.ContainsFunc(j.Faults, func(f history.Fault) bool {
		return f.Kind != history.KillNode && f.Kind != history.RestartNode && f.Done > o.From-shortly && f.At < o.To
	})
}

func (j *judge) measure(o *Outage) {
	inside := func(op history.Op) bool { return op.Sent >= o.From && op.Got <= o.To }
	for _, key := range j.keys {
		ops := j.ops[key]
		if ops[0].Sent >= o.From && ops[0].Sent < o.To {
			o.Fresh++
			if first, ok := j.firstAnswer(key); ok && first.Got <= o.To {
				o.Served++
			}
		}
		first, acknowledged := j.acknowledged(key)
		if !acknowledged || first.Got >= o.From {
			continue
		}
		for _, op := range ops {
			if inside(op) {
				o.Asked++
				if op.OK() {
					o.Replayed++
				}
			}
		}
	}
}
