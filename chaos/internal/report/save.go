package report

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
)

// The files of a report.
const (
	jsonFile  = "report.json"
	pageFile  = "report.html"
	junitFile = "junit.xml"
)

// mostPictures is how many failing keys get a picture of their own.
const mostPictures = 5

// Save writes the report as JSON, as a page and for JUnit, with a picture of
// the first keys whose histories have no order.
func (r Report) Save() error {
	failed := errors.Join(r.write(jsonFile, r.JSON), r.write(pageFile, r.HTML), r.write(junitFile, r.JUnit))
	for key, name := range r.pictures() {
		failed = errors.Join(failed, r.write(name, func(w io.Writer) error { return check.Draw(r.history, key, w) }))
	}
	return failed
}

func (r Report) write(name string, content func(io.Writer) error) error {
	file, err := os.Create(filepath.Join(r.Dir, name))
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	return errors.Join(content(file), file.Close())
}

// files are the names that Save writes.
func (r Report) files() []string {
	return append([]string{pageFile, jsonFile, junitFile}, slices.Sorted(maps.Values(r.pictures()))...)
}

var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// pictures are the files of the keys whose histories are worth a look.
func (r Report) pictures() map[string]string {
	names := map[string]string{}
	for _, v := range r.Result.Violations {
		if (v.Check == "answers have no order" || v.Check == "update lost") && len(names) < mostPictures {
			names[v.Key] = "history-" + unsafeInNames.ReplaceAllString(v.Key, "_") + ".html"
		}
	}
	return names
}

// Command is what runs the same schedule and load again. How threads
// interleave no seed decides.
func (r Report) Command() string {
	s := r.Setup
	args := []string{"go run ./chaos", "-preset", s.Preset, "-seed", fmt.Sprint(s.Seed), "-duration", short(s.Duration)}
	add := func(name, value string) {
		if value != "" {
			args = append(args, name, value)
		}
	}
	args = append(args, "-nodes", fmt.Sprint(s.Nodes))
	switch {
	case s.Compose != "":
		args = append(args, "-driver", "compose", "-compose-file", quoted(s.Compose), "-target", strings.Join(s.Target, ","))
	case s.External():
		args = append(args, "-target", strings.Join(s.Target, ","), "-exec", quoted(s.Exec))
	default:
		args = append(args, "-instances", fmt.Sprint(s.Instances))
	}
	if s.Rate > 0 {
		add("-rate", fmt.Sprint(s.Rate))
	}
	add("-policy", s.Policy)
	add("-recorder", s.Recorder)
	if !s.Ledger() {
		add("-engine", s.Engine)
	}
	add("-fault", strings.Join(s.Only, ","))
	add("-keep", strings.Trim(strings.Join(strings.Fields(fmt.Sprint(s.Keep)), ","), "[]"))
	add("-break", s.Mutant)
	if s.Rehearsal {
		args = append(args, "-rehearse")
	}
	return strings.Join(args, " ")
}

// quoted is a text as one word for a shell.
func quoted(text string) string {
	if !unsafeInShell.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var unsafeInShell = regexp.MustCompile(`[^A-Za-z0-9_./-]`)

// short is a duration without its zeros.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
