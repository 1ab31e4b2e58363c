package check

import (
	"maps"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/nemesis"
)

// faults: each fault has happened, and there was an outage of all nodes.
func faults(j *judge) {
	for _, f := range j.Faults {
		if f.Err != "" || f.Proof == "" {
			j.report(Invalid, "fault not proven", "", "%s at %s: %s", f.Action, seconds(f.At), f.Err)
		}
	}
	for kind, n := range j.missed() {
		j.report(Invalid, "fault never hit", "", "%s was tried %d times, and nothing passed that it could have hit", kind, n)
	}
	if len(j.Faults) == 0 {
		j.report(Invalid, "no faults", "", "nothing was broken")
	}
	if len(j.outages) == 0 && (nemesis.Plan{Preset: j.Setup.Preset, Only: j.Setup.Only}).KillsAll() && j.Setup.Keep == nil {
		j.report(Invalid, "no outage of all nodes", "", "%d faults", len(j.Faults))
	}
}

// triesEnough is how often a kind of fault may miss before that says something.
const triesEnough = 3

// missed counts the tries of the kinds of faults that have never hit anything.
func (j *judge) missed() map[string]int {
	tries, hit := map[string]int{}, map[string]bool{}
	for _, f := range j.Faults {
		tries[f.Kind]++
		hit[f.Kind] = hit[f.Kind] || !f.Missed
	}
	maps.DeleteFunc(tries, func(kind string, n int) bool { return hit[kind] || n < triesEnough })
	return tries
}

// leastRate is the floor of answered requests per second, far below what the
// load asks for.
const leastRate = 5

// floor: there was a load worth the name before, during and after the faults.
func floor(j *judge) {
	if len(j.Faults) == 0 {
		return
	}
	began, over := j.Faults[0].At, j.Faults[len(j.Faults)-1].Done
	spans := map[string][2]time.Duration{"before the faults": {0, began}, "during the faults": {began, over}, "after the faults": {over, j.end()}}
	for name, span := range spans {
		n := 0
		for _, op := range j.Ops {
			if op.OK() && op.Got >= span[0] && op.Got < span[1] {
				n++
			}
		}
		if length := (span[1] - span[0]).Seconds(); float64(n) < leastRate*length {
			j.report(Invalid, "load too low", "", "%s %d requests were answered in %.1fs, want %d per second", name, n, length, leastRate)
		}
	}
}

// end is when the last request ended.
func (j *judge) end() time.Duration {
	var last time.Duration
	for _, op := range j.Ops {
		last = max(last, op.Got)
	}
	return last
}

// Figures are what a person wants to know beside the verdict.
type Figures struct {
	Keys         int `json:"keys"`
	Requests     int `json:"requests"`
	Answered     int `json:"answered"`
	Replays      int `json:"replays"`
	Acknowledged int `json:"acknowledged"`
	Kills        int `json:"kills"`
	Faults       int `json:"faults"`
	// Broken is how often each kind of fault has hit something, without what
	// mends.
	Broken map[string]int `json:"broken"`
	// Unknown is how many keys ended without anybody knowing how.
	Unknown int `json:"unknown"`
	// Again is how many keys were started more than once (under Retry, after
	// a lapse).
	Again int `json:"started_again"`
	// Primary and Fallback are handler starts by route.
	Primary  int      `json:"starts_primary"`
	Fallback int      `json:"starts_fallback"`
	Outages  []Outage `json:"outages"`
	// Normal and Outage are the time from the first request of a fresh key
	// to its first answer, for keys begun outside and inside total outages.
	Normal Latency `json:"fresh_normal"`
	Outage Latency `json:"fresh_in_outage"`
	// Back is how long after the last fault each instance first served a
	// fresh key by the primary route, as far as it did.
	Back []time.Duration `json:"back_on_primary"`
	// Lapses lists every second start under Retry.
	Lapses []Lapse `json:"lapses,omitempty"`
	// Missed is how many faults met nothing that they could have hit.
	Missed int `json:"missed"`
	// Holds are times that plain locks were held, Transfers rows of DoTx.
	Holds        map[string]int `json:"holds"`
	Transfers    int            `json:"transfers"`
	Recovery     Recovery       `json:"recovery"`
	Availability Availability   `json:"availability"`
	Seconds      []Second       `json:"seconds"`
}

func (j *judge) figures() Figures {
	f := Figures{
		Requests: len(j.Ops), Keys: len(j.keys), Faults: len(j.Faults), Outages: j.outages, Broken: map[string]int{}, Holds: map[string]int{},
		Lapses: j.lapses(), Recovery: j.recovery(), Availability: j.availability(), Seconds: j.perSecond(),
	}
	if j.Accounts != nil {
		f.Transfers = len(j.Accounts.Transfers)
	}
	for _, e := range ofKind(j.Effects, history.Acquired) {
		f.Holds[e.Locker]++
	}
	for _, row := range j.rows {
		if row.State == "unknown" {
			f.Unknown++
		}
	}
	for _, effects := range j.effects {
		if len(ofKind(effects, history.Start)) > 1 {
			f.Again++
		}
	}
	for _, op := range j.Ops {
		if op.OK() {
			f.Answered++
			if op.Replayed {
				f.Replays++
			}
		}
	}
	for _, e := range j.Effects {
		switch {
		case e.Kind != history.Start:
		case e.Route == primary:
			f.Primary++
		default:
			f.Fallback++
		}
	}
	for _, fault := range j.Faults {
		switch {
		case fault.Missed:
			f.Missed++
		case fault.Err == "" && !fault.Mends():
			f.Broken[fault.Kind]++
		}
		if fault.Kind == history.KillNode && fault.Err == "" {
			f.Kills++
		}
	}
	for instance := range j.Setup.Instances {
		if after, ok := j.backOnPrimary(instance); ok {
			f.Back = append(f.Back, after)
		}
	}
	j.latencies(&f)
	return f
}

func (j *judge) latencies(f *Figures) {
	var normal, outage []time.Duration
	for _, key := range j.keys {
		if _, ok := j.acknowledged(key); ok {
			f.Acknowledged++
		}
		first, ok := j.firstAnswer(key)
		if !ok || isProbe(j.ops[key]) || first.Kind == history.Final {
			continue // its client had given up
		}
		sent := j.ops[key][0].Sent
		if j.inOutage(sent) {
			outage = append(outage, first.Got-sent)
		} else {
			normal = append(normal, first.Got-sent)
		}
	}
	f.Normal, f.Outage = latencyOf(normal), latencyOf(outage)
}

func (j *judge) inOutage(at time.Duration) bool {
	for _, o := range j.outages {
		if at >= o.From && at < o.To {
			return true
		}
	}
	return false
}
