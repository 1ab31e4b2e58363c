package check

import (
	"maps"
	"net/http"
	"slices"

	"github.com/redfence/redfence/chaos/internal/history"
)

// starts: a handler starts at most once per key.
func starts(j *judge) {
	for _, key := range slices.Sorted(maps.Keys(j.effects)) {
		begun := ofKind(j.effects[key], history.Start)
		if len(begun) <= max(1, j.exceptions.Starts[key]) || j.exceptions.Expired[key] {
			continue
		}
		one, two := begun[0], begun[1]
		if j.Setup.Policy == "retry" && j.allLapsed(begun) {
			continue // figures list them
		}
		j.reportAt(two.At, Safety, "double start", key, "%d starts: %s at %s (%s route, fence %d), then %s at %s (%s route, fence %d)",
			len(begun), one.Instance, seconds(one.At), one.Route, one.Fence, two.Instance, seconds(two.At), two.Route, two.Fence)
	}
}

func (j *judge) allLapsed(begun []history.Effect) bool {
	for i := 1; i < len(begun); i++ {
		if !j.lapsed(begun[i-1], begun[i]) {
			return false
		}
	}
	return true
}

func ofKind(effects []history.Effect, kind string) []history.Effect {
	var found []history.Effect
	for _, e := range effects {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

// fences: each later start of a key has a larger fence.
func fences(j *judge) {
	if !j.Setup.Ledger() {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(j.effects)) {
		last := int64(0)
		for _, e := range ofKind(j.effects[key], history.Start) {
			if e.Fence <= last {
				j.report(Safety, "fence order", key, "a start at %s has fence %d after %d", seconds(e.At), e.Fence, last)
			}
			last = max(last, e.Fence)
		}
	}
}

// responses: all durable answers of a key are the same.
func responses(j *judge) {
	for _, key := range j.keys {
		first, ok := j.acknowledged(key)
		if !ok || j.exceptions.Expired[key] {
			continue
		}
		for _, op := range j.ops[key] {
			if op.OK() && op.Durable && (op.Status != first.Status || op.Body != first.Body) {
				j.report(Safety, "answers differ", key, "%d %s at %s, but %d %s at %s",
					first.Status, first.Body, seconds(first.Got), op.Status, op.Body, seconds(op.Got))
				break
			}
		}
	}
}

// executions: every answer comes from a start that the recorder knows, with
// its effect.
func executions(j *judge) {
	for _, key := range j.keys {
		for _, op := range j.ops[key] {
			if !op.OK() {
				continue
			}
			started := slices.ContainsFunc(j.transfers[key], func(t history.Transfer) bool { return t.Execution == op.Execution })
			done := started
			for _, e := range j.effects[key] {
				mine := e.Execution == op.Execution
				started = started || mine && e.Kind == history.Start
				done = done || mine && (e.Kind == history.Done || j.Setup.External())
			}
			if !started || !done {
				j.report(Safety, "answer without effect", key, "%d %s at %s: start recorded %v, effect recorded %v",
					op.Status, op.Body, seconds(op.Got), started, done)
				break
			}
		}
	}
}

// refusals: once a durable answer was given, nobody is told that the key is in
// progress, gone or another's; not by the owner's own process either, which
// may not know yet that its completion was recorded.
func refusals(j *judge) {
	for _, key := range j.keys {
		first, ok := j.acknowledged(key)
		if !ok {
			continue
		}
		for _, op := range j.ops[key] {
			if isRefusal(op) && op.Sent > first.Got {
				j.report(Safety, "refused after an answer", key, "%d %s at %s after a durable answer at %s",
					op.Status, op.Body, seconds(op.Got), seconds(first.Got))
				break
			}
		}
	}
}

// finals: every acknowledged answer is given again at the end. (That it is the
// same, responses says.)
func finals(j *judge) {
	for _, key := range j.keys {
		if _, ok := j.acknowledged(key); !ok || isProbe(j.ops[key]) {
			continue
		}
		var last history.Op
		asked, answered := false, false
		for _, op := range j.ops[key] {
			if op.Kind == history.Final {
				last, asked, answered = op, true, answered || op.OK() && op.Durable
			}
		}
		switch {
		case answered:
		case !asked:
			j.report(Invalid, "key not asked again", key, "no request after the last fault")
		case last.Status == 0, last.Status == http.StatusServiceUnavailable, last.Status == http.StatusTooManyRequests:
			j.report(Liveness, "answer not available", key, "the last of the final requests got %d %s%s", last.Status, last.Body, last.Err)
		default:
			j.report(Safety, "answer lost", key, "the last of the final requests got %d %s", last.Status, last.Body)
		}
	}
}

// rows: every acknowledged key is completed in the ledger; no other is left
// unsettled, unless a fault of this run lets an outcome be lost.
func rows(j *judge) {
	if !j.Setup.Ledger() {
		return
	}
	for _, key := range j.keys {
		row, known := j.rows[key]
		switch _, acknowledged := j.acknowledged(key); {
		case acknowledged && !known:
			j.report(Safety, "not in the ledger", key, "an acknowledged key has no row")
		case acknowledged && row.State != "completed":
			j.report(Safety, "not in the ledger", key, "an acknowledged key is %s", row.State)
		case known && row.State != "completed" && row.State != "released" && !j.mayBeUnknown(key):
			j.report(Liveness, "unsettled key", key, "the row is %s at the end", row.State)
		}
	}
}
