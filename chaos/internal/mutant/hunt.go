package mutant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/scenario"
)

// bound is how long a mutant may live.
const bound = 2 * time.Minute

// A Result is what became of a mutant.
type Result struct {
	Name   string `json:"name"`
	Rule   string `json:"rule"`
	Breaks string `json:"breaks"`
	Killer string `json:"killer"`
	Caught bool   `json:"caught"`
	// Took is how long the killer ran.
	Took time.Duration `json:"took"`
	// What the killer said.
	What string `json:"what"`
}

// String is the line of a result.
func (r Result) String() string {
	verdict := "caught"
	if !r.Caught {
		verdict = "SURVIVED"
	}
	return fmt.Sprintf("%-9s %-26s %5.1fs  %s: %s", verdict, r.Name, r.Took.Seconds(), r.Killer, r.What)
}

// A Hunter tries mutants.
type Hunter struct {
	// Binary is the instance binary, built with the tag chaos.
	Binary string
	// Dir takes a folder per mutant.
	Dir string
	// Bin takes the test binaries, which are built when they are first needed.
	Bin string
}

// Hunt tries mutants one after the other and tells each result. The error says
// that the rig failed.
func (h *Hunter) Hunt(ctx context.Context, chosen []Mutant, progress io.Writer) (results []Result, err error) {
	for _, m := range chosen {
		r, err := h.try(ctx, m)
		if err != nil {
			return results, fmt.Errorf("chaos: mutant %s: %w", m.Name, err)
		}
		results = append(results, r)
		_, _ = fmt.Fprintln(progress, r)
	}
	return results, nil
}

func (h *Hunter) try(ctx context.Context, m Mutant) (Result, error) {
	r := Result{Name: m.Name, Rule: m.Rule, Breaks: m.Breaks, Killer: m.Killer.String()}
	dir := filepath.Join(h.Dir, m.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return r, err
	}
	var err error
	if m.Killer.Scenario != "" {
		err = h.play(ctx, m, dir, &r)
	} else {
		err = h.test(ctx, m, dir, &r)
	}
	return r, err
}

// play lets a scenario judge the mutant.
func (h *Hunter) play(ctx context.Context, m Mutant, dir string, r *Result) error {
	chosen, err := scenario.Select(m.Killer.Scenario)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	results, err := scenario.Play(ctx, chosen, scenario.Options{Binary: h.Binary, Dir: dir, Mutant: m.Name})
	if err != nil {
		return err
	}
	played := results[0]
	r.Took, r.What = played.Took, played.What
	if r.What == "" {
		r.What = "nothing is wrong"
	}
	r.Caught = played.Class == m.Killer.Class && strings.Contains(played.What, m.Killer.Shows)
	return nil
}

// test lets a test judge the mutant: it must fail, and say why.
func (h *Hunter) test(ctx context.Context, m Mutant, dir string, r *Result) error {
	binary, folder, err := h.build(ctx, m.Killer.Package)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.v", "-test.run", anchored(m.Killer.Test))
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CI=true", "REDFENCE_MUTANT="+m.Name) // no test is skipped
	began := time.Now()
	out, err := cmd.CombinedOutput()
	r.Took = time.Since(began)
	if write := os.WriteFile(filepath.Join(dir, "log"), out, 0o644); write != nil {
		return write
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	name, _, _ := strings.Cut(m.Killer.Test, "/")
	failed := err != nil && strings.Contains(string(out), "--- FAIL: "+name) && !strings.Contains(string(out), "\npanic: ")
	r.What = said(string(out), m.Killer.Shows)
	r.Caught = failed && r.What != ""
	if !r.Caught {
		r.What = fmt.Sprintf("the test ended with %v; see %s", err, filepath.Join(dir, "log"))
	}
	return nil
}

// build makes the test binary of a package, once.
func (h *Hunter) build(ctx context.Context, pkg string) (binary, folder string, err error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", module+strings.TrimPrefix("/"+pkg, "/."))
	text, err := list.Output()
	if err != nil {
		return "", "", fmt.Errorf("find the package %s: %w", pkg, err)
	}
	folder = strings.TrimSpace(string(text))
	binary = filepath.Join(h.Bin, filepath.Base(folder)+".test")
	if _, err := os.Stat(binary); err == nil {
		return binary, folder, nil
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-tags", "chaos", "-o", binary, ".")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
	}
	return binary, folder, nil
}

const module = "github.com/redfence/redfence"

// anchored makes each part of a test's name match from its beginning; the test
// itself to its end.
func anchored(name string) string {
	top, sub, ok := strings.Cut(name, "/")
	if !ok {
		return "^" + top + "$"
	}
	return "^" + top + "$/^" + sub
}

// said returns the first line of a test's output that holds the text, and is
// no name of a test.
func said(out, text string) string {
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, ".go:") && strings.Contains(line, text) {
			return line
		}
	}
	return ""
}
