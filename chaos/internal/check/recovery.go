package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// What a fail-over may take, from all nodes killed to fresh keys served, and
// from a majority back to the primary route; the share of requests for fresh
// keys to be served while nodes are down, after the first second.
const (
	servedBound    = time.Second
	primaryBound   = 3 * time.Second
	availableBound = 0.999
	firstSecond    = time.Second
)

// Recovery is how fast the instances came back from outages of all nodes that
// nothing else disturbed.
type Recovery struct {
	Outages int `json:"outages"`
	// Served is the time from the last kill until an instance answered a
	// fresh key that was first sent after it; one per outage and instance.
	Served Latency `json:"served"`
	// Primary is the time from a majority back until an instance started a
	// handler on the primary route; one per outage and instance.
	Primary Latency `json:"primary"`
	// Missing counts the instances that did neither before the next fault.
	Missing int `json:"missing"`
}

// recovery measures.
func (j *judge) recovery() Recovery {
	var r Recovery
	var served, route []time.Duration
	for _, o := range j.outages {
		if j.otherFaults(o) {
			continue
		}
		r.Outages++
		back, next := j.majorityBack(o)
		for instance := range j.Setup.Instances {
			first, ok := j.firstServed(o, instance)
			if ok {
				served = append(served, first-o.From)
			}
			started, on := j.firstPrimary(back, next, instance)
			if on {
				route = append(route, started-back)
			}
			if !ok || !on {
				r.Missing++
			}
		}
	}
	r.Served, r.Primary = latencyOf(served), latencyOf(route)
	return r
}

// firstServed returns when an instance first answered a key that was begun in
// an outage.
func (j *judge) firstServed(o Outage, instance int) (first time.Duration, ok bool) {
	for _, key := range j.keys {
		ops := j.ops[key]
		if ops[0].Sent < o.From {
			continue
		}
		if ops[0].Sent >= o.To {
			break // keys are in the order of their first request
		}
		for _, op := range ops {
			if op.Instance == instance && op.OK() && op.Got < o.To && (!ok || op.Got < first) {
				first, ok = op.Got, true
			}
		}
	}
	return first, ok
}

// majorityBack returns when a majority of the nodes was back after an outage,
// and when the next one was killed.
func (j *judge) majorityBack(o Outage) (back, next time.Duration) {
	up := 0
	next = j.end()
	for _, f := range j.Faults {
		switch {
		case f.At < o.To:
		case f.Kind == history.KillNode:
			return back, f.At
		case f.Kind == history.RestartNode:
			if up++; up == j.Setup.Nodes/2+1 {
				back = f.Done
			}
		}
	}
	return back, next
}

func (j *judge) firstPrimary(back, next time.Duration, instance int) (time.Duration, bool) {
	name := fmt.Sprintf("instance-%d", instance)
	i := slices.IndexFunc(j.Effects, func(e history.Effect) bool {
		return e.Kind == history.Start && e.Instance == name && e.Route == primary && e.At >= back && e.At < next
	})
	if i < 0 {
		return 0, false
	}
	return j.Effects[i].At, true
}

// Availability counts the requests for fresh keys that were sent while at
// least one node was down and nothing else was broken, from the second second
// on. Those that met their key at work are not counted: somebody else's
// request for it is.
type Availability struct {
	Requests int `json:"requests"`
	Served   int `json:"served"`
}

// Share is 1 where nothing was asked.
func (a Availability) Share() float64 {
	if a.Requests == 0 {
		return 1
	}
	return float64(a.Served) / float64(a.Requests)
}

func (j *judge) availability() Availability {
	var a Availability
	for _, w := range j.degraded() {
		for _, op := range j.Ops {
			if !isFresh(op) || op.Sent < w.From+firstSecond || op.Sent >= w.To || isRefusal(op) {
				continue
			}
			a.Requests++
			if op.OK() {
				a.Served++
			}
		}
	}
	return a
}

// isFresh reports whether a request is for a fresh key, and of a client that
// waits for the answer of a handler that gives one.
func isFresh(op history.Op) bool {
	return (op.Kind == history.Fresh || op.Kind == history.Duplicate) && op.Asked == ""
}

// degraded are the times in which at least one node was down, without other
// faults.
func (j *judge) degraded() []Outage {
	var found []Outage
	down := map[int]bool{}
	var from time.Duration
	for _, f := range j.Faults {
		switch f.Kind {
		case history.KillNode:
			if len(down) == 0 {
				from = f.At
			}
			down[f.Node] = true
		case history.RestartNode:
			if delete(down, f.Node); len(down) == 0 {
				if o := (Outage{From: from, To: f.Done}); !j.otherFaults(o) {
					found = append(found, o)
				}
			}
		}
	}
	return found
}

// A Second is what happened to requests for fresh keys in one second.
type Second struct {
	Requests int `json:"requests"`
	Served   int `json:"served"`
	// All counts answered requests of every kind.
	All      int `json:"all"`
	Primary  int `json:"primary"`
	Fallback int `json:"fallback"`
}

// Plus is what happened in both.
func (s Second) Plus(o Second) Second {
	return Second{s.Requests + o.Requests, s.Served + o.Served, s.All + o.All, s.Primary + o.Primary, s.Fallback + o.Fallback}
}

// perSecond is the run second by second.
func (j *judge) perSecond() []Second {
	list := make([]Second, int(j.end()/time.Second)+1)
	at := func(t time.Duration) *Second { return &list[min(max(0, int(t/time.Second)), len(list)-1)] }
	for _, op := range j.Ops {
		if isFresh(op) && !isRefusal(op) {
			at(op.Sent).Requests++
			if op.OK() {
				at(op.Sent).Served++
			}
		}
		if op.OK() {
			at(op.Got).All++
		}
	}
	for _, e := range ofKind(j.Effects, history.Start) {
		if e.Route == primary {
			at(e.At).Primary++
		} else {
			at(e.At).Fallback++
		}
	}
	return list
}

// bounds: in a run that does nothing but kill all nodes and bring them back,
// the fail-over keeps its times.
func bounds(j *judge) {
	if j.Setup.Preset != "cycles" || len(j.Setup.Only) > 0 || j.Setup.External() {
		return
	}
	r, a := j.recovery(), j.availability()
	switch {
	case r.Outages == 0 || a.Requests == 0:
		j.report(Invalid, "nothing measured", "", "%d outages, %d requests in them", r.Outages, a.Requests)
		return
	case r.Missing > 0:
		j.report(Liveness, "recovery missing", "", "%d times an instance did not come back before the next fault", r.Missing)
	}
	if r.Served.P99 > servedBound {
		j.report(Liveness, "fail-over too slow", "", "fresh keys are served %v after all nodes died, at the 99th percentile of %d; %v is the bound", r.Served.P99, r.Served.Count, servedBound)
	}
	if r.Primary.P99 > primaryBound {
		j.report(Liveness, "fail-back too slow", "", "the primary route is back %v after the quorum, at the 99th percentile of %d; %v is the bound", r.Primary.P99, r.Primary.Count, primaryBound)
	}
	if a.Share() < availableBound {
		j.report(Liveness, "not available", "", "%d of %d requests for fresh keys were served while nodes were down, after the first second: %.3f %%", a.Served, a.Requests, 100*a.Share())
	}
}
