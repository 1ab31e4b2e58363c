package check

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// lines of one holder of a plain lock, a second apart from one another.
func holder(locker, name, who string, from time.Duration, fence, read int64) []history.Effect {
	line := history.Effect{Key: name, Locker: locker, Execution: who, Instance: "instance-0", Fence: fence}
	var lines []history.Effect
	for i, kind := range []string{history.Acquired, history.ReadSlot, history.WriteSlot, history.Releasing} {
		line.Kind, line.At, line.Clock = kind, from+time.Duration(i)*second/10, from+time.Duration(i)*second/10
		line.Valid = line.Clock + second
		line.Value = 0
		switch kind {
		case history.ReadSlot:
			line.Value = read
		case history.WriteSlot:
			line.Value = read + 1
		}
		lines = append(lines, line)
	}
	return lines
}

// busy is a good run in which every kind of work was done.
func busy() *history.History {
	h := good()
	h.Setup.Lease = 2 * second
	for i, locker := range []string{history.EngineLock, history.Redlock} {
		name := locker + "-0"
		h.Effects = append(h.Effects, holder(locker, name, "a"+name, second, int64(10+i), 0)...)
		h.Effects = append(h.Effects, holder(locker, name, "b"+name, 2*second, int64(20+i), 1)...)
	}
	h.Accounts = &history.Accounts{Opening: 100, Balances: []int64{70, 130}}
	h.Accounts.Transfers = []history.Transfer{{Key: "t", Execution: "xt", From: 0, To: 1, Amount: 30}}
	h.Ops = append(h.Ops, answer(history.Fresh, "t", second), answer(history.Final, "t", 40*second))
	h.Rows = append(h.Rows, history.Row{Key: "t", State: "completed", Fence: 7})
	for i := range h.Ops {
		if h.Ops[i].Key == "t" {
			h.Ops[i].Asked = history.Transfers
		}
	}
	sink(h, "k042", history.Fenced)
	sink(h, "k043", history.Deduplicating)
	return h
}

func sink(h *history.History, key, name string) {
	for i := range h.Effects {
		if h.Effects[i].Key == key {
			h.Effects[i].Sink = name
		}
	}
}

// line returns the n-th line of a key and kind, to be changed.
func line(h *history.History, key, kind string, n int) *history.Effect {
	for i := range h.Effects {
		if h.Effects[i].Key == key && h.Effects[i].Kind == kind {
			if n == 0 {
				return &h.Effects[i]
			}
			n--
		}
	}
	return nil
}

func TestBusyRunIsFine(t *testing.T) {
	if r := Judge(busy()); r.Class() != Fine {
		t.Errorf("%+v", r.Violations)
	}
}

func TestEachFaultOfTheWorkloadsIsFound(t *testing.T) {
	const engine, redlock = "engine-0", "redlock-0"
	another := func(h *history.History, key string, fence int64) {
		h.Effects = append(h.Effects, history.Effect{
			At: 15 * second, Kind: history.Done, Key: key, Execution: "other", Fence: fence, Sink: line(h, key, history.Done, 0).Sink,
		})
	}
	for _, c := range []struct {
		check string
		class Class
		spoil func(h *history.History)
	}{
		{"answers have no order", Safety, func(h *history.History) { // refused between two answers
			h.Ops = append(h.Ops, history.Op{Kind: history.Late, Key: "k042", Sent: 30 * second, Got: 31 * second, Status: 409})
		}},
		{"answers have no order", Safety, func(h *history.History) { // two executions, each answered as the key's
			another(h, "k050", 5000)
			late := op(h, "k050", history.Late)
			late.Sent, late.Got, late.Execution = 20*second, 21*second, "other"
		}},
		{"answers have no order", Safety, func(h *history.History) { // answered before its effect
			line(h, "k042", history.Done, 0).At += 8 * second
		}},
		{"lock held twice", Safety, func(h *history.History) {
			h.Effects = append(h.Effects, holder(history.EngineLock, engine, "c", 2100*time.Millisecond, 30, 2)...)
		}},
		{"fence order", Safety, func(h *history.History) {
			h.Effects = append(h.Effects, holder(history.Redlock, redlock, "c", 5*second, 21, 2)...)
		}},
		{"update lost", Safety, func(h *history.History) {
			h.Effects = append(h.Effects, holder(history.Redlock, redlock, "c", 5*second, 30, 1)...)
		}},
		{"effect not once", Safety, func(h *history.History) { another(h, "k043", 5000) }},
		{"effects out of order", Safety, func(h *history.History) { another(h, "k042", 1) }},
		{"stale effect answered", Safety, func(h *history.History) { another(h, "k042", 5000) }},
		{"sum wrong", Safety, func(h *history.History) { h.Accounts.Balances[0]++ }},
		{"balance wrong", Safety, func(h *history.History) { h.Accounts.Balances[0], h.Accounts.Balances[1] = 100, 100 }},
		{"effect not once", Safety, func(h *history.History) {
			h.Accounts.Transfers = append(h.Accounts.Transfers, h.Accounts.Transfers[0])
			h.Accounts.Balances = []int64{40, 160}
		}},
		{"answer without effect", Safety, func(h *history.History) {
			h.Accounts.Transfers, h.Accounts.Balances = nil, []int64{100, 100}
		}},
		{"double start", Safety, func(h *history.History) { // Retry, but the lease cannot have lapsed
			h.Setup.Policy = "retry"
			again(h, "k105", 10600*time.Millisecond)
		}},
		{"lock left", Liveness, func(h *history.History) { h.Locks = []string{"node 0: rf1:{x}:l"} }},
		{"fail-over too slow", Liveness, func(h *history.History) {
			h.Setup.Preset = "cycles"
			for i, o := range h.Ops {
				if begunInOutage(o) {
					h.Ops[i].Got = o.Sent + 1100*time.Millisecond
				}
			}
		}},
		{"fail-back too slow", Liveness, func(h *history.History) {
			h.Setup.Preset = "cycles"
			for i, e := range h.Effects {
				if e.At >= 20*second && e.At < 23500*time.Millisecond {
					h.Effects[i].Route = "fallback"
				}
			}
		}},
		{"recovery missing", Liveness, func(h *history.History) { h.Setup.Preset, h.Setup.Instances = "cycles", 2 }},
		{"not available", Liveness, func(h *history.History) {
			h.Setup.Preset = "cycles"
			op(h, "k150", history.Fresh).Status = 503
		}},
		{"fault never hit", Invalid, func(h *history.History) {
			for range triesEnough {
				h.Faults = append(h.Faults, history.Fault{Action: history.Action{Kind: history.DropReply}, Missed: true, Proof: "missed"})
			}
		}},
	} {
		t.Run(c.check, func(t *testing.T) {
			h := busy()
			c.spoil(h)
			r := Judge(h)
			if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Check == c.check && v.Class == c.class }) {
				t.Errorf("not found: %+v", r.Violations)
			}
		})
	}
}

// again adds a second start and effect of a key, under a newer fence, whose
// answer is the key's.
func again(h *history.History, key string, at time.Duration) {
	for _, kind := range []string{history.Start, history.Done, history.End} {
		h.Effects = append(h.Effects, history.Effect{At: at, Kind: kind, Key: key, Execution: "again", Fence: 5000, Instance: "instance-0", Route: "fallback"})
	}
}

func TestWhatIsNoFaultOfTheWorkloadsIsNotReported(t *testing.T) {
	const redlock = "redlock-0"
	for name, change := range map[string]func(h *history.History){
		"a refusal while the first answer is under way": func(h *history.History) {
			first := op(h, "k042", history.Fresh)
			h.Ops = append(h.Ops, history.Op{Kind: history.Duplicate, Key: "k042", Sent: first.Sent, Got: first.Got + second, Status: 409})
		},
		"a fence that a majority has forgotten": func(h *history.History) {
			h.Effects = append(h.Effects, holder(history.Redlock, redlock, "c", 25*second, 3, 2)...)
		},
		"a write that the register refused": func(h *history.History) {
			late := holder(history.Redlock, redlock, "c", 5*second, 30, 1)
			late[2].Refused, late[2].Value = true, 2
			h.Effects = append(h.Effects, late...)
		},
		"a lapsed holder beside its successor": func(h *history.History) {
			line(h, redlock, history.Releasing, 0).Clock += 10 * second
			for i := range h.Effects {
				if h.Effects[i].Key == redlock && h.Effects[i].Execution == "aredlock-0" {
					h.Effects[i].Valid = 1900 * time.Millisecond
				}
			}
		},
		"a second start under Retry after a lapse": func(h *history.History) {
			h.Setup.Policy = "retry"
			again(h, "k105", 14*second)
		},
		"an effect that the deduplicating sink has seen": func(h *history.History) {
			h.Effects = append(h.Effects, history.Effect{At: 15 * second, Kind: history.Done, Key: "k043", Execution: "other", Fence: 5000, Sink: history.Deduplicating, Refused: true})
		},
		"a stale effect that the fenced sink refused": func(h *history.History) {
			h.Effects = append(h.Effects, history.Effect{At: 15 * second, Kind: history.Done, Key: "k042", Execution: "other", Fence: 1, Sink: history.Fenced, Refused: true})
		},
		"a handler that panics": func(h *history.History) {
			h.Ops = append(h.Ops, history.Op{Kind: history.Fresh, Asked: history.Panics, Key: "p", Sent: second, Got: 2 * second, Status: 409})
			h.Rows = append(h.Rows, history.Row{Key: "p", State: "unknown"})
		},
		"times within the bounds": func(h *history.History) { h.Setup.Preset = "cycles" },
	} {
		t.Run(name, func(t *testing.T) {
			h := busy()
			change(h)
			if r := Judge(h); r.Class() != Fine {
				t.Errorf("%+v", r.Violations)
			}
		})
	}
}

func TestLapsesAreListed(t *testing.T) {
	h := busy()
	h.Setup.Policy = "retry"
	again(h, "k105", 14*second)
	got := Judge(h).Figures.Lapses
	if len(got) != 1 || got[0].Key != "k105" || got[0].Second != 14*second {
		t.Errorf("%+v", got)
	}
}

func TestPictureShowsTheKey(t *testing.T) {
	h := busy()
	for _, key := range []string{"k042", "redlock-0", "no such key"} {
		var b bytes.Buffer
		if err := Draw(h, key, &b); err != nil || !strings.Contains(b.String(), "<html") {
			t.Errorf("%s: %d bytes, %v", key, b.Len(), err)
		}
	}
}
