package check

import (
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Why a check could not be made on somebody else's deployment.
const (
	noStarts     = "no handler has reported a start to the recorder"
	noExecutions = "the answers do not name executions that were reported"
	noFences     = "the starts that were reported have no fence"
	noLedger     = "the target's ledger is not read"
	noSinks      = "effects go where the target's handlers send them"
	noLocks      = "a target is not asked for plain locks"
	noBounds     = "it is measured with the local driver"
)

// An Unmade check is one that the history does not permit.
type Unmade struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// unmade are the checks that could not be made, in the order of Kinds. A run
// that starts its own cluster permits all.
func (j *judge) unmade() []Unmade {
	if !j.Setup.External() {
		return nil
	}
	why := map[string]string{
		"not in the ledger": noLedger, "unsettled key": noLedger, "sum wrong": noLedger, "balance wrong": noLedger,
		"effect not once": noSinks, "effects out of order": noSinks, "stale effect answered": noSinks,
		"lock held twice": noLocks, "update lost": noLocks, "lock left": noLocks,
		"fail-over too slow": noBounds, "fail-back too slow": noBounds, "recovery missing": noBounds, "not available": noBounds, "nothing measured": noBounds,
	}
	starts := ofKind(j.Effects, history.Start)
	switch {
	case len(starts) == 0:
		why["double start"], why["fence order"], why["answer without effect"] = noStarts, noStarts, noStarts
	case !slices.ContainsFunc(starts, func(e history.Effect) bool { return e.Fence != 0 }):
		why["fence order"] = noFences
	}
	if len(starts) > 0 && !j.namesExecutions() {
		why["answer without effect"] = noExecutions
	}
	var list []Unmade
	for _, kind := range Kinds() {
		if why[kind.Name] != "" {
			list = append(list, Unmade{kind.Name, why[kind.Name]})
		}
	}
	return list
}

// namesExecutions reports whether some answer names an execution that was
// reported for its key.
func (j *judge) namesExecutions() bool {
	return slices.ContainsFunc(j.Ops, func(op history.Op) bool {
		return op.OK() && slices.ContainsFunc(j.effects[op.Key], func(e history.Effect) bool { return e.Execution == op.Execution })
	})
}

// saysUnknown reports whether the service has said in the end that nobody
// knows how a key ended: where its ledger is not read.
func (j *judge) saysUnknown(key string) bool {
	ops := j.ops[key]
	return j.Setup.External() && strings.Contains(ops[len(ops)-1].Body, "outcome-unknown")
}

// answered are the executions that durable answers of a key name; those of
// somebody else's service need not be reported.
func (j *judge) answered(key string) []history.Effect {
	var found []history.Effect
	for _, op := range j.ops[key] {
		if op.OK() && op.Durable {
			found = append(found, history.Effect{Execution: op.Execution, At: j.ops[key][0].Sent})
		}
	}
	return found
}

// servesAgain returns how long after the last fault a service first answered a
// probe, whatever its route.
func (j *judge) servesAgain(instance int) (time.Duration, bool) {
	for _, key := range j.keys {
		op := j.ops[key][0]
		if op.Kind == history.Probe && op.Instance == instance && op.OK() && op.Got <= j.Healed+settleBound {
			return op.Got - j.Healed, true
		}
	}
	return 0, false
}
