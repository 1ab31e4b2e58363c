// Package report says how a run went: a verdict that a person can read, and
// the same as JSON.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/history"
)

// Report is a judged run.
type Report struct {
	Setup  history.Setup `json:"setup"`
	Result check.Result  `json:"result"`
	// Dir is where the run's files lie. Empty: nowhere.
	Dir string `json:"dir,omitempty"`
	// Verdict is the last line of the text, without "verdict: ".
	Verdict string `json:"verdict"`
	// Code is the exit code.
	Code    int `json:"code"`
	history *history.History
}

// survived is the exit code of a run whose engine was broken on purpose and in
// which nothing was wrong.
const survived = 4

// New makes the report of a history.
func New(h *history.History, result check.Result, dir string) Report {
	r := Report{Setup: h.Setup, Result: result, Dir: dir, Code: int(result.Class()), history: h}
	name := result.Class().String()
	if h.Setup.Mutant != "" && result.Class() == check.Fine {
		name, r.Code = "mutant survived", survived
	}
	r.Verdict = fmt.Sprintf("%s (%d)", name, r.Code)
	if h.Setup.Rehearsal {
		r.Verdict = "REHEARSAL " + r.Verdict
	}
	return r
}

// Exit returns the exit code and the verdict.
func (r Report) Exit() (int, string) { return r.Code, r.Verdict }

// JSON writes the report as one JSON object.
func (r Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// shownViolations is how many violations of each class the text spells out.
const shownViolations = 5

// Text writes the report for a person; its last line is the verdict.
func (r Report) Text(w io.Writer) error {
	var b strings.Builder
	r.head(&b)
	r.checks(&b)
	r.figures(&b)
	r.violations(&b)
	fmt.Fprintf(&b, "again: %s\n", r.Command())
	if r.Dir != "" {
		fmt.Fprintf(&b, "report: %s, with %s\n", r.Dir, strings.Join(r.files(), ", "))
	}
	fmt.Fprintf(&b, "verdict: %s\n", r.Verdict)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) head(b *strings.Builder) {
	s := r.Setup
	if s.Rehearsal {
		fmt.Fprintf(b, "REHEARSAL: no process was killed, nothing was durable.\n")
	}
	b.WriteString(r.Deployment())
	if !s.Ledger() {
		fmt.Fprintf(b, "; engine: %s, a baseline", s.Engine)
	}
	fmt.Fprintf(b, "; %s for %v, seed %d, abandoned claims: %s", s.Preset, s.Duration, s.Seed, s.Policy)
	if s.Mutant != "" {
		fmt.Fprintf(b, "; broken on purpose: %s", s.Mutant)
	}
	b.WriteString("\n\n")
}

// Deployment says what the run was done to.
func (r Report) Deployment() string {
	s := r.Setup
	switch {
	case s.Rehearsal:
		return fmt.Sprintf("%d engines over one in-memory ledger and %d miniredis nodes in one process", s.Instances, s.Nodes)
	case s.Compose != "":
		return fmt.Sprintf("%s of the containers of %s, %d Redis nodes", strings.Join(s.Target, ", "), s.Compose, s.Nodes)
	case s.External():
		return fmt.Sprintf("%s with %d Redis nodes, broken by %q", strings.Join(s.Target, ", "), s.Nodes, s.Exec)
	}
	return fmt.Sprintf("%d engine processes, %d redis-server processes, Postgres", s.Instances, s.Nodes)
}

// unmade says why a check could not be made; empty: it was.
func (r Report) unmade(check string) string {
	for _, u := range r.Result.Unmade {
		if u.Check == check {
			return u.Why
		}
	}
	return ""
}

// unmadeByReason gives the checks that could not be made, by why, in the order
// of the first.
func (r Report) unmadeByReason() iter.Seq2[string, []string] {
	return func(yield func(string, []string) bool) {
		told := map[string]bool{}
		for _, u := range r.Result.Unmade {
			if told[u.Why] {
				continue
			}
			told[u.Why] = true
			var checks []string
			for _, same := range r.Result.Unmade {
				if same.Why == u.Why {
					checks = append(checks, same.Check)
				}
			}
			if !yield(u.Why, checks) {
				return
			}
		}
	}
}

func (r Report) checks(b *strings.Builder) {
	f := r.Result.Figures
	verb := "kills (SIGKILL)"
	switch {
	case r.Setup.Rehearsal:
		verb = "nodes closed"
	case r.Setup.External():
		verb = "kills, says the hook"
	}
	line(b, "requests", "%d for %d keys; %d got the handler's response, %d of them replayed", f.Requests, f.Keys, f.Answered, f.Replays)
	line(b, verb, "%d of %d faults; %d times all %d nodes were down at once", f.Kills, f.Faults, len(f.Outages), r.Setup.Nodes)
	if f.Missed > 0 {
		line(b, "faults that hit nothing", "%d", f.Missed)
	}
	if r.Setup.External() {
		line(b, "handler starts", "%d were reported", f.Primary+f.Fallback)
	} else {
		line(b, "handler starts", "%d on the primary route, %d on the fallback route", f.Primary, f.Fallback)
	}
	if len(f.Holds) > 0 {
		line(b, "plain locks held", "%d times from the engine, %d from Redlock; %d transfers", f.Holds[history.EngineLock], f.Holds[history.Redlock], f.Transfers)
	}
	b.WriteByte('\n')
	if f.Unknown > 0 || f.Again > 0 {
		line(b, "outcome unknown", "%d keys; started again after a lapse: %d", f.Unknown, f.Again)
	}
	for _, l := range f.Lapses[:min(len(f.Lapses), shownLapses)] {
		line(b, "started again", "%s on %s at %s, first on %s at %s", l.Key, l.To, round(l.Second), l.From, round(l.First))
	}
	if more := len(f.Lapses) - shownLapses; more > 0 {
		line(b, "", "%d more, see report.json", more)
	}
	for _, kind := range check.Kinds() {
		if n := r.count(kind.Name); kind.Class == check.Safety && r.unmade(kind.Name) == "" && (n > 0 || headline[kind.Name]) {
			line(b, kind.Name, "%d", n)
		}
	}
	for why, checks := range r.unmadeByReason() {
		line(b, "not checked", "%s: %s", strings.Join(checks, ", "), why)
	}
	b.WriteByte('\n')
}

// shownOutages is how many outages the text spells out.
const shownOutages = 6

// shownLapses is how many second starts the text spells out.
const shownLapses = 3

// headline are the checks that the text shows even when nothing was found.
var headline = map[string]bool{
	"double start": true, "answers differ": true, "answers have no order": true, "answer lost": true, "answer without effect": true,
	"not in the ledger": true, "effect not once": true, "sum wrong": true, "lock held twice": true, "update lost": true,
}

func (r Report) count(check string) int {
	n := 0
	for _, v := range r.Result.Violations {
		if v.Check == check {
			n++
		}
	}
	return n
}

func (r Report) figures(b *strings.Builder) {
	f := r.Result.Figures
	ledger := "Postgres"
	if r.Setup.Rehearsal || r.Setup.External() {
		ledger = "the ledger"
	}
	if more := len(f.Outages) - shownOutages; more > 0 {
		line(b, "outages of all nodes", "%d, of which the last %d:", len(f.Outages), shownOutages)
	}
	for _, o := range f.Outages[max(0, len(f.Outages)-shownOutages):] {
		line(b, "outage of all nodes", "%s to %s: %s served %d of %d fresh keys and replayed %d of %d retries of finished ones",
			round(o.From), round(o.To), ledger, o.Served, o.Fresh, o.Replayed, o.Asked)
	}
	line(b, "fresh keys", "p50 %s, p99 %s, max %s", round(f.Normal.P50), round(f.Normal.P99), round(f.Normal.Max))
	if f.Outage.Count > 0 {
		line(b, "in such an outage", "p50 %s, p99 %s, max %s", round(f.Outage.P50), round(f.Outage.P99), round(f.Outage.Max))
	}
	if rec := f.Recovery; rec.Outages > 0 {
		line(b, "fresh keys served again", "p50 %s, p99 %s after all nodes died, of %d in %d outages", round(rec.Served.P50), round(rec.Served.P99), rec.Served.Count, rec.Outages)
		if rec.Primary.Count > 0 {
			line(b, "primary route again", "p50 %s, p99 %s after the quorum was back", round(rec.Primary.P50), round(rec.Primary.P99))
		}
	}
	if a := f.Availability; a.Requests > 0 {
		line(b, "available", "%.3f %% of %d requests for fresh keys while nodes were down, after the first second", 100*a.Share(), a.Requests)
	}
	if len(f.Back) > 0 {
		back := make([]string, len(f.Back))
		for i, d := range f.Back {
			back[i] = round(d).String()
		}
		name := "back on Redis"
		if r.Setup.External() {
			name = "fresh keys served"
		}
		line(b, name, "%s after the last fault, per instance", strings.Join(back, ", "))
	}
	b.WriteByte('\n')
}

func (r Report) violations(b *strings.Builder) {
	shown := map[check.Class]int{}
	for _, v := range r.Result.Violations {
		if shown[v.Class]++; shown[v.Class] > shownViolations {
			continue
		}
		fmt.Fprintf(b, "%s: %s %s: %s\n", strings.ToUpper(v.Class.String()), v.Check, v.Key, v.What)
		if shown[v.Class] == 1 && v.Key != "" {
			r.story(b, v.Key, v.At)
		}
	}
	for class, n := range shown {
		if n > shownViolations {
			fmt.Fprintf(b, "%s: %d more, see report.json\n", strings.ToUpper(class.String()), n-shownViolations)
		}
	}
	if len(r.Result.Violations) > 0 {
		b.WriteByte('\n')
	}
}

func line(b *strings.Builder, name, format string, args ...any) {
	fmt.Fprintf(b, "  %-23s %s\n", name, fmt.Sprintf(format, args...))
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Millisecond)
}
