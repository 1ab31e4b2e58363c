package check

import (
	"maps"
	"slices"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// sinks: the deduplicating sink has applied no two effects of a key; the fenced
// one takes effects in the order of their fences, and the answer is that of the
// newest.
func sinks(j *judge) {
	for _, key := range slices.Sorted(maps.Keys(j.effects)) {
		var applied []history.Effect
		for _, e := range ofKind(j.effects[key], history.Done) {
			if e.Sink != history.Plain && !e.Refused {
				applied = append(applied, e)
			}
		}
		if len(applied) == 0 {
			continue
		}
		if applied[0].Sink == history.Deduplicating {
			if len(applied) > 1 {
				j.report(Safety, "effect not once", key, "the deduplicating sink applied %d effects", len(applied))
			}
			continue
		}
		if j.Setup.Ledger() {
			j.fenced(key, applied)
		}
	}
}

func (j *judge) fenced(key string, applied []history.Effect) {
	for i, e := range applied[1:] {
		if e.Fence <= applied[i].Fence {
			j.report(Safety, "effects out of order", key, "the fenced sink took fence %d after %d", e.Fence, applied[i].Fence)
			return
		}
	}
	newest := applied[len(applied)-1]
	if first, ok := j.acknowledged(key); ok && first.Execution != newest.Execution {
		j.report(Safety, "stale effect answered", key, "the answer is of %s, the newest effect of %s with fence %d",
			first.Execution, newest.Execution, newest.Fence)
	}
}

// money: what transfers have moved is still there, no key has moved any
// twice, and every answer has its transfer.
func money(j *judge) {
	if j.Accounts == nil {
		return
	}
	sum, moved := int64(0), make([]int64, len(j.Accounts.Balances))
	for _, t := range j.Accounts.Transfers {
		moved[t.From] -= t.Amount
		moved[t.To] += t.Amount
	}
	for i, balance := range j.Accounts.Balances {
		sum += balance
		if want := j.Accounts.Opening + moved[i]; balance != want {
			j.report(Safety, "balance wrong", "", "account %d holds %d, its transfers make %d", i, balance, want)
		}
	}
	if want := j.Accounts.Opening * int64(len(j.Accounts.Balances)); sum != want {
		j.report(Safety, "sum wrong", "", "the accounts hold %d, they began with %d", sum, want)
	}
	for _, key := range slices.Sorted(maps.Keys(j.transfers)) {
		if n := len(j.transfers[key]); n > 1 {
			j.report(Safety, "effect not once", key, "%d transfers were committed", n)
		}
	}
}

// A Lapse is a second start of a key's handler, which Retry allows once the
// lease of the first has lapsed.
type Lapse struct {
	Key    string        `json:"key"`
	First  time.Duration `json:"first"`
	Second time.Duration `json:"second"`
	// From and To are the instances.
	From string `json:"from"`
	To   string `json:"to"`
}

// lapses lists the second starts.
func (j *judge) lapses() []Lapse {
	var list []Lapse
	for _, key := range slices.Sorted(maps.Keys(j.effects)) {
		begun := ofKind(j.effects[key], history.Start)
		for i := 1; i < len(begun); i++ {
			one, two := begun[i-1], begun[i]
			list = append(list, Lapse{key, one.At, two.At, one.Instance, two.Instance})
		}
	}
	return list
}

// lapsed reports whether the lease of one start can have lapsed before the
// next: only a fault keeps an owner from renewing it, and only one that was
// stopped itself, or starved by the machine, starts late in its lease.
func (j *judge) lapsed(one, two history.Effect) bool {
	broken := slices.ContainsFunc(j.Faults, func(f history.Fault) bool { return f.Done >= one.At-j.Setup.Lease && f.At <= two.At })
	stopped := slices.ContainsFunc(j.Faults, func(f history.Fault) bool {
		return f.Kind == history.StopInstance && f.At <= one.At && f.Done >= one.At-j.Setup.Duration
	})
	return broken && (stopped || two.At-one.At >= j.Setup.Lease/10)
}
