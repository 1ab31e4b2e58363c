package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// mostLines of one key's story.
const mostLines = 30

type moment struct {
	at   time.Duration
	text string
}

// story tells what happened to one key, with the faults around it. Of a long
// one it tells what is near the moment that matters; 0: the beginning.
func (r Report) story(b *strings.Builder, key string, matters time.Duration) {
	var moments []moment
	first, last := time.Duration(-1), time.Duration(0)
	seen := func(at time.Duration, format string, args ...any) {
		moments = append(moments, moment{at, fmt.Sprintf(format, args...)})
		if first < 0 || at < first {
			first = at
		}
		last = max(last, at)
	}
	for _, op := range r.history.Ops {
		if op.Key == key {
			seen(op.Sent, "client  %s to instance-%d: %s", op.Kind, op.Instance, outcome(op))
		}
	}
	for _, e := range r.history.Effects {
		if e.Key == key {
			seen(e.At, "effect  %s", effect(e))
		}
	}
	for _, f := range r.history.Faults {
		if f.At >= first && f.At <= last {
			moments = append(moments, moment{f.At, "fault   " + f.Action.String()})
		}
	}
	slices.SortStableFunc(moments, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	from := 0
	if matters > 0 {
		from = max(0, slices.IndexFunc(moments, func(m moment) bool { return m.at >= matters })-mostLines/2)
	}
	if from > 0 {
		fmt.Fprintf(b, "    … %d lines before\n", from)
	}
	for i, m := range moments[from:] {
		if i == mostLines {
			fmt.Fprintf(b, "    … %d more lines\n", len(moments)-from-i)
			break
		}
		fmt.Fprintf(b, "    %9.3fs %s\n", m.at.Seconds(), m.text)
	}
}

func effect(e history.Effect) string {
	text := fmt.Sprintf("%s on %s, %s route, fence %d, execution %s", e.Kind, e.Instance, e.Route, e.Fence, e.Execution)
	if e.Instance == "" { // somebody else's service tells no more
		text = fmt.Sprintf("%s, fence %d, execution %s", e.Kind, e.Fence, e.Execution)
	}
	if e.Locker != "" {
		text = fmt.Sprintf("%s by %s, %s lock, fence %d, holder %s, valid until %.3fs, register %d",
			e.Kind, e.Instance, e.Locker, e.Fence, e.Execution, e.Valid.Seconds(), e.Value)
	}
	if e.Sink != history.Plain {
		text += ", " + e.Sink + " sink"
	}
	if e.Refused {
		text += ", refused"
	}
	return text
}

func outcome(op history.Op) string {
	text := op.Err
	if op.Status != 0 {
		text = fmt.Sprintf("%d %s", op.Status, strings.TrimSpace(op.Body))
	}
	if op.Replayed {
		text += " (replayed)"
	}
	return fmt.Sprintf("%s after %v", text, (op.Got - op.Sent).Round(time.Millisecond))
}
