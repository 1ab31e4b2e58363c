// Package report holds the figures of a run of the benchmark and shows them:
// as a table, as JSON, as one page of HTML, and beside an older run.
package report

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

// A Run is everything that one run of the benchmark found.
type Run struct {
	// Format of this record; readers refuse another.
	Format  int       `json:"format"`
	When    time.Time `json:"when"`
	Machine Machine   `json:"machine"`
	Preset  string    `json:"preset"`
	Results []Result  `json:"results,omitempty"`
	Targets []Target  `json:"targets,omitempty"`
}

// Format is the version of the record that this program writes.
const Format = 1

// Machine says where the run took place, without naming the machine.
type Machine struct {
	CPUs     int    `json:"cpus"`
	Model    string `json:"model,omitempty"`
	OS       string `json:"os"`
	Go       string `json:"go"`
	Redis    string `json:"redis,omitempty"`
	Postgres string `json:"postgres,omitempty"`
	// Fsync is the median time of a small synced write where Postgres keeps
	// its data, in microseconds.
	Fsync float64 `json:"fsync_us,omitempty"`
}

// ThisMachine describes the machine and the Go toolchain.
func ThisMachine() Machine {
	return Machine{CPUs: runtime.NumCPU(), Model: cpuModel(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
}

// String returns the machine on one line.
func (m Machine) String() string {
	parts := []string{fmt.Sprintf("%d CPUs", m.CPUs)}
	for _, part := range []struct{ name, value string }{
		{"", m.Model}, {"", m.OS}, {"", m.Go}, {"Redis ", m.Redis}, {"PostgreSQL ", m.Postgres},
	} {
		if part.value != "" {
			parts = append(parts, part.name+part.value)
		}
	}
	if m.Fsync > 0 {
		parts = append(parts, fmt.Sprintf("fsync %.0f µs", m.Fsync))
	}
	return strings.Join(parts, ", ")
}

// A Result is one contender under one load, round by round.
type Result struct {
	Scenario  string  `json:"scenario"`
	Contender string  `json:"contender"`
	Options   string  `json:"options"`
	Baseline  string  `json:"baseline"`
	Callers   int     `json:"callers"`
	Rounds    []Round `json:"rounds"`
	// Fault is what happened while it was measured, if anything did.
	Fault *Fault `json:"fault,omitempty"`
	// Refused says why its figures are not compared; empty when they are.
	Refused string `json:"refused,omitempty"`
}

// A Fault is what happened to nodes during the rounds of a result.
type Fault struct {
	What string `json:"what"`
	// From and To are seconds since the beginning of the round.
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// A Round is one measurement.
type Round struct {
	measure.Sample
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P95  time.Duration `json:"p95_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
	// ServerCPU is the processor time of the Redis and Postgres servers.
	ServerCPU time.Duration `json:"server_cpu_ns"`
	// Checks counts tests of the contender's promise, Broken those it failed.
	Checks int64 `json:"checks"`
	Broken int64 `json:"broken"`
	// Figures are those that only some scenarios have.
	Figures map[string]float64 `json:"figures,omitempty"`
}

// NewRound takes the latencies out of a sample. It does not keep the sample's
// histogram: a long run has many rounds, and its heap is looked at.
func NewRound(s measure.Sample) Round {
	return Round{
		Sample: s.WithoutLatencies(), P50: s.Quantile(0.5), P90: s.Quantile(0.9), P95: s.Quantile(0.95), P99: s.Quantile(0.99),
		P999: s.Quantile(0.999), Max: s.Max(),
	}
}

// CPUPerOp returns the processor time per operation, client and servers
// together. 0 when nothing succeeded.
func (r Round) CPUPerOp() time.Duration {
	if r.Ops < 1 {
		return 0
	}
	return time.Duration(float64(r.Usage.CPU+r.ServerCPU) / r.Ops)
}

// Rates returns the operations per second of each round.
func (r Result) Rates() []float64 { return r.each(func(r Round) float64 { return r.Rate() }) }

// P50s returns the median latency of each round in nanoseconds.
func (r Result) P50s() []float64 { return r.each(func(r Round) float64 { return float64(r.P50) }) }

// P95s returns the 95th percentile of each round in nanoseconds.
func (r Result) P95s() []float64 { return r.each(func(r Round) float64 { return float64(r.P95) }) }

// P99s returns the 99th percentile of each round in nanoseconds.
func (r Result) P99s() []float64 { return r.each(func(r Round) float64 { return float64(r.P99) }) }

// CPUs returns the processor time per operation of each round in
// nanoseconds.
func (r Result) CPUs() []float64 {
	return r.each(func(r Round) float64 { return float64(r.CPUPerOp()) })
}

// Failed returns how many operations failed in all rounds.
func (r Result) Failed() int64 {
	var n int64
	for _, round := range r.Rounds {
		n += round.Failed
	}
	return n
}

// Checks returns how often the contender's promise was tested in all rounds.
func (r Result) Checks() int64 {
	var n int64
	for _, round := range r.Rounds {
		n += round.Checks
	}
	return n
}

func (r Result) each(f func(Round) float64) []float64 {
	figures := make([]float64, len(r.Rounds))
	for i, round := range r.Rounds {
		figures[i] = f(round)
	}
	return figures
}

// Ratio returns this result's rates over another's, round by round.
func (r Result) Ratio(baseline Result) measure.Spread {
	return measure.SpreadOf(measure.Ratios(r.Rates(), baseline.Rates()))
}

// A Target is the verdict on one of the project's performance targets.
type Target struct {
	ID     string `json:"id"`
	Work   string `json:"work"`
	Gate   string `json:"gate"`
	Goal   string `json:"goal"`
	Figure string `json:"figure,omitempty"`
	// Met speaks of the gate, Reached of the goal.
	Met     bool `json:"met"`
	Reached bool `json:"reached"`
	// NotRun says why there is no figure.
	NotRun string `json:"not_run,omitempty"`
}

// String returns the target's line.
func (t Target) String() string {
	switch {
	case t.NotRun != "":
		return t.ID + " not run: " + t.NotRun
	case t.Met:
		return t.ID + " met " + t.Figure + " (gate " + t.Gate + "; goal " + t.Goal + ")"
	}
	return t.ID + " missed " + t.Figure + " (gate " + t.Gate + "; goal " + t.Goal + ")"
}
