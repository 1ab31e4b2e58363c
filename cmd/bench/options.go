package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/internal/problems"
)

// A pace says how long and how often things are measured.
type pace struct {
	warm, round time.Duration
	rounds      int
	handOffRuns int
}

// A preset is how much is measured.
type preset struct {
	pace
	judged     pace // of targets, whose ratios have to be sure
	callers    []int
	storm      int // callers of a storm, all processes together
	rows, keys int // of target P10
}

var presets = map[string]preset{
	"smoke": {
		pace:    pace{warm: 50 * time.Millisecond, round: 200 * time.Millisecond, rounds: 1, handOffRuns: 1},
		judged:  pace{warm: 100 * time.Millisecond, round: 400 * time.Millisecond, rounds: 1, handOffRuns: 1},
		callers: []int{1, 16}, storm: 16, rows: 10_000, keys: 5_000,
	},
	"quick": {
		pace:    pace{warm: 100 * time.Millisecond, round: 400 * time.Millisecond, rounds: 3, handOffRuns: 3},
		judged:  pace{warm: 400 * time.Millisecond, round: 1400 * time.Millisecond, rounds: 3, handOffRuns: 5},
		callers: []int{1, 128}, storm: 256, rows: 1_000_000, keys: 1_000_000,
	},
	"full": {
		pace:    pace{warm: 400 * time.Millisecond, round: 1600 * time.Millisecond, rounds: 5, handOffRuns: 5},
		judged:  pace{warm: 2 * time.Second, round: 10 * time.Second, rounds: 5, handOffRuns: 5},
		callers: []int{1, 16, 128, 512}, storm: 256, rows: 10_000_000, keys: 1_000_000,
	},
}

// measured returns the part of a round's processor time that was spent while
// it was measured: the servers also worked during the warm-up.
func (p pace) measured(spent time.Duration) time.Duration {
	return time.Duration(float64(spent) * p.round.Seconds() / (p.round + p.warm).Seconds())
}

// options are the command line.
type options struct {
	preset     preset
	presetName string
	targets    []string
	scenarios  []string
	callers    int
	rate       float64
	duplicates float64 // of a storm's requests, as a share
	processes  int     // of a storm
	soak       time.Duration
	json       bool
	html       string
	publish    string
	compare    [2]string // old and new run; empty: measure
	redis      []string
	postgres   string
	cpuprofile string
	trace      string
}

// parse reads the command line; every problem is reported at once.
func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { usage(flags) }
	flags.StringVar(&o.presetName, "preset", "quick", "how much to measure: `smoke`, quick or full")
	targets := flags.String("target", "", "measure only what these targets need: a `list` like P1a,P3, or all")
	scenarios := flags.String("scenario", "", "measure only these scenarios: a `list` of "+strings.Join(scenarioNames(), ", "))
	flags.IntVar(&o.callers, "callers", 0, "measure with this `number` of callers only")
	flags.Float64Var(&o.rate, "rate", 0, "open loop: `operations` per second that are due; 0 is a closed loop")
	flags.Float64Var(&o.duplicates, "dup", stormDuplicates, "the `share` of requests whose id was used before, from 0 to less than 1, in -scenario storm and do-mixed")
	flags.IntVar(&o.processes, "processes", stormProcesses, "the `number` of processes of -scenario storm, which share the callers")
	flags.DurationVar(&o.soak, "soak", 0, "for this `time` measure one contender of ours at one -scenario, "+soakDefault+" unless it is named, and judge whether rate and heap stay flat")
	flags.StringVar(&o.html, "html", "", "write a report, one page of HTML, to this `file`; without -target it is bench-report.html unless -json is given")
	flags.StringVar(&o.publish, "publish", "", "write the run's table into this README `file`, and the picture beside it")
	flags.StringVar(&o.compare[0], "compare", "", "measure nothing: compare two runs written with -json, -compare `old.json` new.json")
	flags.BoolVar(&o.json, "json", false, "write the whole run as JSON to standard output")
	redisURLs := flags.String("redis", os.Getenv("REDFENCE_BENCH_REDIS"), "`addresses` of Redis nodes, separated by commas, instead of own ones (environment REDFENCE_BENCH_REDIS)")
	flags.StringVar(&o.postgres, "postgres", os.Getenv("REDFENCE_BENCH_POSTGRES"), "`URL` of an empty Postgres database instead of an own one (environment REDFENCE_BENCH_POSTGRES)")
	flags.StringVar(&o.cpuprofile, "cpuprofile", "", "write a CPU profile to this `file`")
	flags.StringVar(&o.trace, "trace", "", "write an execution trace to this `file`")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.targets, o.scenarios, o.redis = list(*targets), list(*scenarios), list(*redisURLs)
	var wrong problems.List
	rest := flags.Args()
	if o.compare[0] != "" && len(rest) > 0 {
		o.compare[1], rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		wrong.Add("unexpected argument %q", rest[0])
	}
	o.check(&wrong)
	return o, wrong.Err()
}

func usage(flags *flag.FlagSet) {
	out := flags.Output()
	fmt.Fprintln(out, "bench compares ways to lock and to run work once, side by side.")
	fmt.Fprintln(out, "\nUsage: bench [flags]")
	flags.PrintDefaults()
	fmt.Fprintln(out, "\nTargets (met and missed speak of the gate; the exit code is 1 when one is missed or not run):")
	for _, t := range targets() {
		fmt.Fprintf(out, "  %-4s %s: gate %s; goal %s\n", t.id, t.work, t.gate, t.goal)
	}
}

func (o *options) check(wrong *problems.List) {
	var ok bool
	if o.preset, ok = presets[o.presetName]; !ok {
		wrong.Add("-preset %q: use one of %s", o.presetName, strings.Join(slices.Sorted(maps.Keys(presets)), ", "))
	}
	if slices.Equal(o.targets, []string{"all"}) {
		o.targets = targetIDs()
	}
	for _, id := range o.targets {
		if !slices.Contains(targetIDs(), id) {
			wrong.Add("-target %q: use all or some of %s", id, strings.Join(targetIDs(), ","))
		}
	}
	for _, name := range o.scenarios {
		if !slices.Contains(scenarioNames(), name) {
			wrong.Add("-scenario %q: use some of %s", name, strings.Join(scenarioNames(), ","))
		}
	}
	if (o.compare[0] == "") != (o.compare[1] == "") {
		wrong.Add("-compare: give two files, old and new")
	}
	if o.html == "" && len(o.targets) == 0 && !o.json {
		o.html = "bench-report.html"
	}
	if o.callers < 0 || o.rate < 0 {
		wrong.Add("-callers and -rate cannot be negative")
	}
	if !(o.duplicates >= 0 && o.duplicates < 1) { // NaN is neither
		wrong.Add("-dup %v: use a share from 0 to less than 1, such as %v", o.duplicates, stormDuplicates)
	}
	o.checkSoak(wrong)
	if o.processes < 1 {
		wrong.Add("-processes %d: a storm needs at least one", o.processes)
	}
	if o.callers > 0 {
		o.preset.callers = []int{o.callers}
	}
	for flag, file := range map[string]string{"html": o.html, "publish": o.publish, "cpuprofile": o.cpuprofile, "trace": o.trace} {
		if info, err := os.Stat(filepath.Dir(file)); file != "" && (err != nil || !info.IsDir()) {
			wrong.Add("-%s %q: there is no such folder", flag, file)
		}
	}
	if n := len(o.redis); n > 0 && n%2 == 0 {
		wrong.Add("-redis: %d nodes are an even number; name an odd number, usually 5", n)
	}
}

// list splits at commas and leaves out what is empty.
func list(text string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
