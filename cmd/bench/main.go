package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/internal/problems"
)

func main() {
	redis.SetLogger(quiet{})
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// quiet keeps the Redis client from writing a line for each failed dial while
// nodes are killed.
type quiet struct{}

// Printf implements the client's logger.
func (quiet) Printf(context.Context, string, ...any) {}

// Exit codes: everything was measured and met, something was not, or the
// command line was wrong.
const (
	exitOK     = 0
	exitMissed = 1
	exitUsage  = 2
)

func run(args []string, stdout, stderr io.Writer) int {
	if os.Getenv(peerVariable) != "" && slices.Equal(args, []string{peerCommand}) {
		return bePeer(os.Stdin, stdout)
	}
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		for _, problem := range problems.All(err) {
			fmt.Fprintln(stderr, "bench:", problem)
		}
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.compare[0] != "" {
		return compareRuns(o, stdout, stderr)
	}
	missed, err := benchmark(ctx, o, stdout, stderr)
	if err != nil && ctx.Err() != nil {
		fmt.Fprintln(stderr, "bench: interrupted")
		return exitMissed
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitMissed
	}
	if missed {
		return exitMissed
	}
	return exitOK
}

// benchmark starts the servers, measures, and reports. missed is true when a
// target was missed or not run, or a contender broke its promise.
func benchmark(ctx context.Context, o options, stdout, stderr io.Writer) (missed bool, err error) {
	c, err := startCluster(ctx, o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if c.nodes != nil {
		if err := contend.Begin(ctx, c.servers); err != nil {
			return false, err
		}
	}
	profiled, err := startProfiles(o)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, profiled()) }()

	found := report.Run{Format: report.Format, When: time.Now().UTC(), Machine: report.ThisMachine(), Preset: o.presetName}
	if found.Machine.Fsync, err = fsyncTime(); err != nil {
		return false, err
	}
	c.describe(ctx, &found.Machine)
	b := &bench{options: o, cluster: c, notes: stderr}
	switch {
	case o.soak > 0:
		found.Preset = "soak"
		found.Targets, found.Results, err = b.goOn(ctx)
	case len(o.targets) > 0:
		found.Targets, found.Results, err = b.judge(ctx, func(t report.Target) {
			if !o.json {
				fmt.Fprintln(stdout, t)
			}
		})
	default:
		found.Results, err = b.compare(ctx)
	}
	return anyMissed(found), errors.Join(err, write(o, found, stdout, stderr))
}

// write shows the run in every form that was asked for.
func write(o options, found report.Run, stdout, stderr io.Writer) error {
	var err error
	switch {
	case o.json:
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = out.Encode(found)
	case len(o.targets) > 0:
		err = found.WriteTable(stderr)
	default:
		err = found.WriteTable(stdout)
	}
	if o.soak > 0 && !o.json {
		for _, line := range found.Targets {
			fmt.Fprintln(stdout, line)
		}
	}
	if o.html != "" {
		err = errors.Join(err, writeHTML(found, o.html))
		fmt.Fprintln(stderr, "report:", o.html)
	}
	if o.publish != "" {
		err = errors.Join(err, found.Publish(o.publish))
	}
	return err
}

func writeHTML(found report.Run, path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return found.WriteHTML(file)
}

func compareRuns(o options, stdout, stderr io.Writer) int {
	old, err := report.Read(o.compare[0])
	recent, errRecent := report.Read(o.compare[1])
	if err = errors.Join(err, errRecent); err == nil {
		err = report.Compare(stdout, old, recent)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return exitMissed
	}
	return exitOK
}

func anyMissed(found report.Run) bool {
	return slices.ContainsFunc(found.Targets, func(t report.Target) bool { return !t.Met }) ||
		slices.ContainsFunc(found.Results, func(r report.Result) bool { return r.Refused != "" })
}

// isTerminal reports whether w shows what is written to a person.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
