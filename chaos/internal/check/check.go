// Package check judges a history: what must never happen, what must happen in
// the end, and whether the run tested anything.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Class says what a violation means, and is the exit code.
type Class int

// The classes, from the code 0 on.
const (
	Fine Class = iota
	// Safety: a handler started twice, or an answer was lost or changed.
	Safety
	// Liveness: something did not come back, or was not served in time.
	Liveness
	// Invalid: the run has not tested what it should have.
	Invalid
)

// String returns fine, safety, liveness or rig invalid.
func (c Class) String() string {
	return [...]string{"fine", "safety", "liveness", "rig invalid"}[c]
}

// A Violation is one thing that is wrong.
type Violation struct {
	Class Class  `json:"class"`
	Check string `json:"check"`
	Key   string `json:"key,omitempty"`
	What  string `json:"what"`
	// At is the moment that matters; 0: the whole history of the key.
	At time.Duration `json:"at,omitempty"`
}

// A Result is the judgement of a run.
type Result struct {
	Violations []Violation `json:"violations"`
	// Unmade are checks that the history does not permit: they have found
	// nothing because they could not look.
	Unmade  []Unmade `json:"unmade,omitempty"`
	Figures Figures  `json:"figures"`
}

// Class returns the worst: safety first, because it stands whatever else is
// wrong; then an invalid rig, because it makes liveness meaningless.
func (r Result) Class() Class {
	for _, class := range []Class{Safety, Invalid, Liveness} {
		if r.Count(class) > 0 {
			return class
		}
	}
	return Fine
}

// Count returns how many violations of a class there are.
func (r Result) Count(class Class) int {
	n := 0
	for _, v := range r.Violations {
		if v.Class == class {
			n++
		}
	}
	return n
}

// Judge looks at a whole run.
func Judge(h *history.History) Result {
	j := newJudge(h)
	for _, check := range []func(*judge){
		starts, fences, responses, linearAnswers, executions, refusals, finals, rows, sinks, money,
		exclusion, lockFences, registers,
		answers, probes, outages, leftovers, bounds,
		faults, floor,
	} {
		check(j)
	}
	unmade := j.unmade()
	j.found = slices.DeleteFunc(j.found, func(v Violation) bool {
		return slices.ContainsFunc(unmade, func(u Unmade) bool { return u.Check == v.Check })
	})
	slices.SortStableFunc(j.found, func(a, b Violation) int { return cmp.Compare(a.Class, b.Class) })
	return Result{Violations: j.found, Unmade: unmade, Figures: j.figures()}
}

// Exceptions say where a scripted scenario expects more than one start.
type Exceptions struct {
	// Starts is how often the handler of a key may start, where not once:
	// after a lapse under Retry.
	Starts map[string]int
	// Expired keys have outlived their retention: a new life has a new answer.
	Expired map[string]bool
}

// JudgeSafety looks only for what must never happen, at any moment of any run.
func JudgeSafety(h *history.History, ex Exceptions) []Violation {
	j := newJudge(h)
	j.exceptions = ex
	for _, check := range []func(*judge){
		starts, fences, responses, executions, refusals, rows, sinks, money, exclusion, lockFences, registers,
		linearAnswers, // says that something is wrong; what comes before says what
	} {
		check(j)
	}
	return slices.DeleteFunc(j.found, func(v Violation) bool { return v.Class != Safety })
}

// judge is a history in the order in which the checks want it.
type judge struct {
	*history.History
	keys    []string // in the order of their first request
	ops     map[string][]history.Op
	effects map[string][]history.Effect
	rows    map[string]history.Row
	// transfers by key.
	transfers map[string][]history.Transfer
	outages   []Outage
	found     []Violation

	exceptions Exceptions
}

func newJudge(h *history.History) *judge {
	j := &judge{
		History: h, ops: map[string][]history.Op{}, effects: map[string][]history.Effect{}, rows: map[string]history.Row{},
		transfers: map[string][]history.Transfer{}, outages: totalOutages(h),
	}
	if h.Accounts != nil {
		for _, t := range h.Accounts.Transfers {
			j.transfers[t.Key] = append(j.transfers[t.Key], t)
		}
	}
	sent := slices.Clone(h.Ops)
	slices.SortStableFunc(sent, func(a, b history.Op) int { return cmp.Compare(a.Sent, b.Sent) })
	for _, op := range sent {
		if j.ops[op.Key] == nil {
			j.keys = append(j.keys, op.Key)
		}
		j.ops[op.Key] = append(j.ops[op.Key], op)
	}
	for _, e := range h.Effects {
		j.effects[e.Key] = append(j.effects[e.Key], e)
	}
	for _, r := range h.Rows {
		j.rows[r.Key] = r
	}
	return j
}

func (j *judge) report(class Class, check, key, format string, args ...any) {
	j.found = append(j.found, Violation{Class: class, Check: check, Key: key, What: fmt.Sprintf(format, args...)})
}

// reportAt reports what became wrong at a moment.
func (j *judge) reportAt(at time.Duration, class Class, check, key, format string, args ...any) {
	j.found = append(j.found, Violation{Class: class, Check: check, Key: key, What: fmt.Sprintf(format, args...), At: at})
}

// acknowledged returns the first durable answer of a key.
func (j *judge) acknowledged(key string) (first history.Op, ok bool) {
	for _, op := range j.ops[key] {
		if op.OK() && op.Durable && (!ok || op.Got < first.Got) {
			first, ok = op, true
		}
	}
	return first, ok
}

// firstAnswer returns the first answer of the handler, durable or not.
func (j *judge) firstAnswer(key string) (first history.Op, ok bool) {
	for _, op := range j.ops[key] {
		if op.OK() && (!ok || op.Got < first.Got) {
			first, ok = op, true
		}
	}
	return first, ok
}

func isProbe(ops []history.Op) bool { return ops[0].Kind == history.Probe }

func seconds(d time.Duration) string { return fmt.Sprintf("%.3fs", d.Seconds()) }
