package check

import (
	"slices"
	"testing"

	"github.com/redfence/redfence/chaos/internal/history"
)

// external is a good history of somebody else's deployment: neither its ledger
// nor its routes are known.
func external() *history.History {
	h := good()
	h.Setup.Target, h.Setup.Exec, h.Rows = []string{"http://x/"}, "break", nil
	for i := range h.Effects {
		h.Effects[i].Route, h.Effects[i].Fence, h.Effects[i].Instance = "", 0, ""
	}
	h.Effects = slices.DeleteFunc(h.Effects, func(e history.Effect) bool { return e.Kind != history.Start })
	return h
}

func why(r Result, check string) string {
	for _, u := range r.Unmade {
		if u.Check == check {
			return u.Why
		}
	}
	return ""
}

func TestAnExternalHistoryIsJudgedAsFarAsItGoes(t *testing.T) {
	silent := external()
	silent.Effects = nil
	mute := external() // reports starts, and answers do not say whose they are
	for i := range mute.Ops {
		mute.Ops[i].Execution = "digest of " + mute.Ops[i].Key
	}
	for name, c := range map[string]struct {
		h    *history.History
		want map[string]string
	}{
		"reports":  {external(), map[string]string{"fence order": noFences, "not in the ledger": noLedger, "lock held twice": noLocks, "double start": "", "answer without effect": ""}},
		"silent":   {silent, map[string]string{"double start": noStarts, "answer without effect": noStarts, "answers differ": "", "answers have no order": ""}},
		"mute":     {mute, map[string]string{"answer without effect": noExecutions, "double start": "", "answers have no order": ""}},
		"ordinary": {good(), map[string]string{"not in the ledger": "", "fence order": ""}},
	} {
		r := Judge(c.h)
		for _, v := range r.Violations {
			t.Errorf("%s: %+v", name, v)
		}
		for check, want := range c.want {
			if got := why(r, check); got != want {
				t.Errorf("%s: %s is not made because %q, want %q", name, check, got, want)
			}
		}
	}
}

func TestAnExternalHistoryShowsWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(h *history.History){
		"double start": func(h *history.History) {
			again := h.Effects[7]
			again.At, again.Execution = again.At+second, "again"
			h.Effects = append(h.Effects, again)
		},
		"answer without effect": func(h *history.History) {
			for i := range h.Ops {
				if h.Ops[i].Key == "k007" {
					h.Ops[i].Execution = "nobody's"
				}
			}
		},
		"answers differ": func(h *history.History) { o := op(h, "k007", history.Final); o.Body, o.Execution = "other", "other" },
		"answers have no order": func(h *history.History) {
			h.Effects = nil
			op(h, "k007", history.Late).Execution = "other"
		},
		"answer lost": func(h *history.History) { o := op(h, "k007", history.Final); o.Status, o.Durable = 404, false },
		"not back": func(h *history.History) {
			h.Ops = slices.DeleteFunc(h.Ops, func(o history.Op) bool { return o.Kind == history.Probe })
		},
		"never answered": func(h *history.History) {
			for i := range h.Ops {
				if h.Ops[i].Key == "k007" {
					h.Ops[i].Status, h.Ops[i].Body = 503, "unavailable"
				}
			}
		},
	} {
		h := external()
		spoil(h)
		if r := Judge(h); !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Check == want }) {
			t.Errorf("%s was not found: %+v", want, r.Violations)
		}
	}
}

// TestAnUnknownKeyOfATargetNeedsAReason: the service says that nobody knows,
// and a fault explains it, or none does.
func TestAnUnknownKeyOfATargetNeedsAReason(t *testing.T) {
	for _, kind := range []string{history.FlushNode, history.KillInstance} {
		h := external()
		h.Faults = append(h.Faults, history.Fault{Action: history.Action{Kind: kind}, At: 12 * second, Done: 12 * second, Proof: "gone"})
		for i := range h.Ops {
			if h.Ops[i].Key == "k107" {
				h.Ops[i].Status, h.Ops[i].Body = 409, `{"type":"…/outcome-unknown"}`
			}
		}
		found := slices.ContainsFunc(Judge(h).Violations, func(v Violation) bool { return v.Check == "never answered" })
		if explained := (history.Action{Kind: kind}).LosesOutcomes(); found == explained {
			t.Errorf("%s: never answered found: %v", kind, found)
		}
	}
}
