// Command chaos shows that nothing runs twice: it starts Redis nodes, Postgres
// and engine instances as processes of their own, sends them fresh keys and
// duplicates over HTTP, kills the Redis nodes one by one up to all of them,
// brings them back empty, and judges what happened from a log of handler
// starts that lives outside the engine.
//
//	go run ./chaos -duration 60s -seed 1
//
// The last line is the verdict. The built binary ends with 0 when all is fine,
// 1 when safety was violated, 2 liveness, 3 when the run has not tested what
// it should have or could not be done, 4 when a rule was broken on purpose and
// nobody noticed; "go run" turns every failure into 1. Where no servers are
// installed it rehearses in one process, and says so.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/cluster"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/mutant"
	"github.com/redfence/redfence/chaos/internal/nemesis"
	"github.com/redfence/redfence/chaos/internal/report"
	"github.com/redfence/redfence/internal/problems"
)

// failure is the exit code of a run that could not be done.
const failure = int(check.Invalid)

type commands struct {
	Run   runCommand   `cmd:"" default:"withargs" help:"Run a cluster under faults and judge it."`
	Check checkCommand `cmd:"" help:"Judge the folder of an earlier run again."`

	Publish publishCommand `cmd:"" help:"Write the tables of a page from what -json has printed."`
}

type runCommand struct {
	Preset    string        `default:"quick" enum:"${presets}" help:"Which faults: ${enum}."`
	Duration  time.Duration `help:"How long faults and load last. Defaults to 60s, for standard 10m, for soak 1h."`
	Seed      uint64        `default:"1" help:"Decides schedule and load; not how threads interleave."`
	Nodes     int           `default:"5" enum:"1,3,5,7" help:"Redis nodes: ${enum}."`
	Instances int           `default:"3" help:"Engine instances."`
	Rate      int           `default:"60" help:"Fresh keys per second, and as many late duplicates."`
	Policy    string        `default:"hold" enum:"hold,retry" help:"What happens to abandoned claims: ${enum}."`
	Fault     []string      `help:"Draw from these faults instead of the preset's: ${faults}." placeholder:"LIST"`
	Keep      []int         `help:"Do only these episodes of the schedule, by number from 0, moved up." placeholder:"LIST"`
	Shrink    bool          `help:"After a run that failed, look for a shorter schedule that fails too."`
	Tries     int           `default:"12" help:"Most runs that -shrink does."`
	Out       string        `help:"Folder for the report. Defaults to chaos-report/SEED-TIME."`
	Engine    string        `default:"redfence" enum:"${engines}" help:"What the instances serve with: ${enum}. The others are baselines, what people compose in good faith."`
	Scenario  string        `help:"Play scripted interleavings instead: all, or letters and names separated by commas." placeholder:"LIST"`
	Mutant    string        `help:"See that broken engines are noticed instead: list, all, today (three of them), or names separated by commas." placeholder:"LIST"`
	Break     string        `default:"" enum:"${mutants}" help:"Break a rule in the instances on purpose: a name that -mutant list shows." placeholder:"NAME"`
	Rehearse  bool          `help:"Rehearse in one process, even if servers are installed."`
	JSON      bool          `name:"json" help:"Print the report as JSON on standard output."`

	driverFlags
}

// Validate reports every number that makes no sense, at once.
func (r *runCommand) Validate() error {
	var list problems.List
	if r.Duration < 0 {
		list.Add("-duration %v is negative", r.Duration)
	}
	if r.Instances < 1 {
		list.Add("-instances %d: at least 1", r.Instances)
	}
	if r.Rate < 1 {
		list.Add("-rate %d: at least 1", r.Rate)
	}
	r.mistakes(&list)
	return list.Err()
}

type checkCommand struct {
	Dir  string `arg:"" type:"existingdir" help:"Folder of the run."`
	JSON bool   `name:"json" help:"Print the report as JSON on standard output."`
}

// quiet drops what the Redis client says of nodes that are down on purpose.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command does what the arguments say and returns the exit code.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var cli commands
	parser := kong.Must(&cli, kong.Name("chaos"), kong.Description("Kill Redis nodes under load, and judge."), kong.Writers(stdout, stderr),
		kong.Vars{"presets": strings.Join(nemesis.Presets(), ","), "faults": strings.Join(nemesis.Episodes(), ", "),
			"engines": strings.Join(baseline.Names(), ","), "mutants": "," + strings.Join(mutant.Names(), ",")})
	parsed, err := parser.Parse(longFlags(args))
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "chaos: %v (see -help)\n", err)
		return failure
	}
	var r verdict
	asJSON := cli.Run.JSON
	switch {
	case strings.HasPrefix(parsed.Command(), "check"):
		r, err = cli.Check.judge()
		asJSON = cli.Check.JSON
	case strings.HasPrefix(parsed.Command(), "publish"):
		if err = cli.Publish.write(); err == nil {
			return 0
		}
	case cli.Run.Mutant == "list":
		_, _ = fmt.Fprint(stdout, mutant.List())
		return 0
	case cli.Run.Mutant != "":
		r, err = cli.Run.hunt(ctx, stderr)
	case cli.Run.Scenario != "":
		r, err = cli.Run.play(ctx, stderr)
	default:
		r, err = cli.Run.do(ctx, stderr)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "%v\nverdict: %v (%d)\n", err, check.Invalid, failure)
		return failure
	}
	return finish(r, asJSON, stdout, stderr)
}

// verdict is what a run ends with.
type verdict interface {
	// Text writes it for a person; its last line is the verdict.
	Text(w io.Writer) error
	JSON(w io.Writer) error
	// Exit returns the exit code and the last line without "verdict: ".
	Exit() (code int, line string)
}

// finish prints the verdict and returns the exit code.
func finish(v verdict, asJSON bool, stdout, stderr io.Writer) int {
	code, line := v.Exit()
	var err error
	if asJSON {
		err = v.JSON(stdout)
		_, _ = fmt.Fprintf(stderr, "verdict: %s\n", line)
	} else {
		err = v.Text(stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, err)
		return failure
	}
	return code
}

// longFlags lets -flag stand for --flag, as everywhere in Go.
func longFlags(args []string) []string {
	long := make([]string, len(args))
	for i, arg := range args {
		if len(arg) > 2 && arg[0] == '-' && arg[1] != '-' {
			arg = "-" + arg
		}
		long[i] = arg
	}
	return long
}

// durations of the presets.
var durations = map[string]time.Duration{"standard": 10 * time.Minute, "soak": time.Hour, "cycles": 6 * time.Minute}

const usualDuration = time.Minute

func (r *runCommand) do(ctx context.Context, stderr io.Writer) (report.Report, error) {
	setup := history.Setup{
		Seed: r.Seed, Duration: r.Duration, Nodes: r.Nodes, Instances: r.Instances, Rehearsal: r.Rehearse, Mutant: r.Break,
		Preset: r.Preset, Policy: r.Policy, Engine: r.Engine, Only: r.Fault, Keep: r.Keep, Rate: r.Rate, Lease: lease,
	}
	if setup.Duration == 0 {
		setup.Duration = cmp.Or(durations[r.Preset], usualDuration)
	}
	show := newProgress(stderr)
	r.aim(&setup)
	if missing := missingServers(); missing != nil && !setup.Rehearsal && !setup.External() {
		show.say("%v; rehearsing in this process instead", missing)
		setup.Rehearsal = true
	}
	if !setup.Rehearsal && !setup.External() && !cluster.CanFillDisk() {
		setup.Without = []string{"fill-disk"}
	}
	if err := feasible(setup); err != nil {
		return report.Report{}, err
	}
	dir, err := r.folder(fmt.Sprint(r.Seed))
	if err != nil {
		return report.Report{}, err
	}
	got, err := run(ctx, setup, r.Rate, dir, show)
	if err != nil || !r.Shrink {
		return got, err
	}
	return r.shrink(ctx, setup, got, dir, show)
}

// feasible says why a run cannot be done.
func feasible(s history.Setup) error {
	if _, err := plan(s).Steps(); err != nil {
		return err
	}
	simple := len(s.Only) == 0 && (s.Preset == "quick" || s.Preset == "all-down" || s.Preset == "cycles")
	switch {
	case s.Rehearsal && s.Mutant != "":
		return fmt.Errorf("chaos: -break needs instances as processes, which a rehearsal has not")
	case s.Rehearsal && s.Engine != baseline.Ours:
		return fmt.Errorf("chaos: -engine %s needs instances as processes, which a rehearsal has not", s.Engine)
	case s.Rehearsal && !simple:
		return fmt.Errorf("chaos: the faults of -preset %s need processes, which a rehearsal has not", s.Preset)
	}
	return nil
}

// folder is where the report goes: an absolute path, because instances have
// working folders of their own.
func (r *runCommand) folder(name string) (string, error) {
	dir := r.Out
	if dir == "" {
		dir = filepath.Join("chaos-report", name+"-"+time.Now().UTC().Format("20060102-150405"))
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("chaos: %w", err)
	}
	return dir, nil
}

// judge judges an old run again.
func (c *checkCommand) judge() (report.Report, error) {
	h, err := history.Load(c.Dir)
	if err != nil {
		return report.Report{}, fmt.Errorf("chaos: %w", err)
	}
	return judged(h, c.Dir)
}
