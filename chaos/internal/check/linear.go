package check

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redfence/redfence/chaos/internal/history"
)

// checkLimit bounds the search in the history of one key.
const checkLimit = 10 * time.Second

// never is the return of what may still happen after everything else.
const never = math.MaxInt64

// said is one thing of a key's history.
type said struct {
	kind      string
	execution string
	status    int
}

// The kinds of what is said. A completion is an effect that became the key's
// answer: at any time after the recorder had it, since an owner may complete
// late. Effects that no client was answered with never did, as far as anybody
// knows: their owners died or lost their claims.
const (
	completion = "completion"
	reply      = "answer"
	refusal    = "refusal"
)

// String names it as a picture shows it.
func (s said) String() string {
	name := s.execution[:min(6, len(s.execution))]
	switch s.kind {
	case completion:
		return "completes as " + name
	case refusal:
		return fmt.Sprint(s.status)
	}
	return fmt.Sprintf("%d %s", s.status, name)
}

// answerModel is a key as its clients may see it: it has no answer, and then
// one for ever. Who is refused is told that it has none yet.
var answerModel = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		has, s := state.(string), input.(said)
		switch s.kind {
		case completion:
			return has == "", s.execution
		case refusal:
			return has == "", has
		}
		return has == s.execution, has
	},
	DescribeOperation: func(input, _ any) string { return input.(said).String() },
	DescribeState:     func(state any) string { return "answer: " + said{execution: state.(string)}.execution },
}

// answersOf is the history of one key.
func (j *judge) answersOf(key string) []porcupine.Operation {
	var ops []porcupine.Operation
	became := map[string]bool{}
	for _, op := range j.ops[key] {
		o := porcupine.Operation{ClientId: op.Instance + 1, Call: int64(op.Sent), Return: int64(op.Got)}
		switch {
		case op.OK() && op.Durable:
			o.Input, became[op.Execution] = said{reply, op.Execution, op.Status}, true
		case isRefusal(op):
			o.Input = said{refusal, "", op.Status}
		default:
			continue // says nothing of the key
		}
		ops = append(ops, o)
	}
	for _, done := range j.completions(key) {
		if became[done.Execution] {
			ops = append(ops, porcupine.Operation{Input: said{completion, done.Execution, 0}, Call: int64(done.At), Return: never})
		}
	}
	return ops
}

// completions are the effects of a key, the first of each execution. When a
// transfer was committed nobody outside Postgres knows: not before the key was
// first asked for.
func (j *judge) completions(key string) []history.Effect {
	var found []history.Effect
	add := func(e history.Effect) {
		if !slices.ContainsFunc(found, func(f history.Effect) bool { return f.Execution == e.Execution }) {
			found = append(found, e)
		}
	}
	for _, e := range ofKind(j.effects[key], history.Done) {
		add(e)
	}
	for _, t := range j.transfers[key] {
		add(history.Effect{Execution: t.Execution, At: j.ops[key][0].Sent})
	}
	if j.Setup.External() {
		for _, e := range j.answered(key) {
			add(e)
		}
	}
	return found
}

func isRefusal(op history.Op) bool {
	return op.Status == http.StatusConflict || op.Status == http.StatusGone || op.Status == http.StatusUnprocessableEntity
}

// linearAnswers: there is one order of all requests for a key, and of what
// became of it, that explains every answer.
func linearAnswers(j *judge) {
	for _, key := range j.keys {
		if !j.exceptions.Expired[key] {
			j.search("answers have no order", key, answerModel, j.answersOf(key))
		}
	}
}

// increment is one holder's work on a register: what it read and wrote.
type increment struct{ read, wrote int64 }

// registerModel is what a plain lock protects: each holder adds one to what
// the holder before it left.
var registerModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, _ any) (bool, any) {
		i := input.(increment)
		return i.read == state.(int64) && i.wrote == i.read+1, i.wrote
	},
	DescribeOperation: func(input, _ any) string {
		return fmt.Sprintf("read %d, wrote %d", input.(increment).read, input.(increment).wrote)
	},
}

// incrementsOf are the writes to a register that were not refused, each from
// its holder's read to its write.
func (j *judge) incrementsOf(name string) []porcupine.Operation {
	var ops []porcupine.Operation
	reads := map[string]history.Effect{}
	for _, e := range j.effects[name] {
		switch {
		case e.Refused:
		case e.Kind == history.ReadSlot:
			reads[e.Execution] = e
		case e.Kind == history.WriteSlot:
			r := reads[e.Execution]
			ops = append(ops, porcupine.Operation{
				ClientId: len(ops) % 8, Input: increment{r.Value, e.Value}, Call: int64(r.At), Return: int64(e.At),
			})
		}
	}
	return ops
}

// registers: no write under a plain lock is lost.
func registers(j *judge) {
	for _, name := range j.lockNames() {
		j.search("update lost", name, registerModel, j.incrementsOf(name))
	}
}

// search looks for an order that the model allows.
func (j *judge) search(check, key string, model porcupine.Model, ops []porcupine.Operation) {
	switch porcupine.CheckOperationsTimeout(model, ops, checkLimit) {
	case porcupine.Illegal:
		j.report(Safety, check, key, "%d operations, see the picture of the key", len(ops))
	case porcupine.Unknown:
		j.report(Invalid, "checker timed out", key, "%s: no verdict on %d operations in %v", check, len(ops), checkLimit)
	}
}

// Draw writes a page that shows the history of a key, or of the register
// behind a plain lock, and the longest orders that explain a part of it.
func Draw(h *history.History, key string, w io.Writer) error {
	j := newJudge(h)
	model, ops := answerModel, j.answersOf(key)
	if slices.Contains(j.lockNames(), key) {
		model, ops = registerModel, j.incrementsOf(key)
	}
	for i := range ops {
		ops[i].Return = min(ops[i].Return, int64(j.end()))
	}
	_, info := porcupine.CheckOperationsVerbose(model, ops, checkLimit)
	return porcupine.Visualize(model, info, w)
}

// lockNames are the names of the plain locks.
func (j *judge) lockNames() []string {
	names := map[string]bool{}
	for _, e := range j.Effects {
		if e.Locker != "" {
			names[e.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
