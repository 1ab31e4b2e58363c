package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/redfence/redfence/chaos/internal/cluster"
	"github.com/redfence/redfence/chaos/internal/mutant"
	"github.com/redfence/redfence/chaos/internal/publish"
	"github.com/redfence/redfence/chaos/internal/scenario"
)

// play plays scripted scenarios.
func (r *runCommand) play(ctx context.Context, stderr io.Writer) (report scenario.Report, err error) {
	chosen, err := scenario.Select(r.Scenario)
	if err != nil {
		return report, err
	}
	var results []scenario.Result
	err = r.withBinary(ctx, "scenarios", func(binary, _, dir string) (err error) {
		results, err = scenario.Play(ctx, chosen, scenario.Options{
			Binary: binary, Dir: dir, Mutant: r.Break, Engine: r.Engine, Progress: stderr,
		})
		return err
	})
	return scenario.NewReport(results, r.Engine, r.Break), err
}

// hunt tries mutants.
func (r *runCommand) hunt(ctx context.Context, stderr io.Writer) (report mutant.Report, err error) {
	chosen, err := mutant.Select(r.Mutant, time.Now().UTC().YearDay())
	if err != nil {
		return report, err
	}
	var results []mutant.Result
	err = r.withBinary(ctx, "mutants", func(binary, bin, dir string) (err error) {
		hunter := mutant.Hunter{Binary: binary, Bin: bin, Dir: dir}
		results, err = hunter.Hunt(ctx, chosen, stderr)
		return err
	})
	return mutant.NewReport(results), err
}

type publishCommand struct {
	Page  string   `arg:"" type:"existingfile" help:"Page with the marks between which the tables stand, such as docs/CHAOS.md."`
	Files []string `arg:"" type:"existingfile" help:"What -json has printed: of scenarios, of mutants, of runs."`
}

// write writes the tables.
func (c *publishCommand) write() error {
	evidence, err := publish.Read(c.Files)
	if err != nil {
		return err
	}
	return evidence.Write(c.Page)
}

// withBinary builds the instance in a folder that lives as long as do, and
// gives it a folder for what it finds.
func (r *runCommand) withBinary(ctx context.Context, name string, do func(binary, bin, dir string) error) (err error) {
	if err := missingServers(); err != nil {
		return fmt.Errorf("chaos: scenarios and mutants need servers: %w", err)
	}
	dir, err := r.folder(name)
	if err != nil {
		return err
	}
	bin, err := os.MkdirTemp("", "redfence-chaos-")
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(bin)) }()
	binary, err := cluster.Build(ctx, bin)
	if err != nil {
		return err
	}
	return do(binary, bin, dir)
}
