// Package publish writes the tables of docs/CHAOS.md from the JSON that runs
// have printed.
package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/redfence/redfence/chaos/internal/mutant"
	"github.com/redfence/redfence/chaos/internal/report"
	"github.com/redfence/redfence/chaos/internal/scenario"
)

// Evidence is what runs have shown.
type Evidence struct {
	Scenarios []scenario.Report // one per engine
	Mutants   []mutant.Result
	Runs      []report.Report
}

// document is what -json prints, whatever was run: the fields tell.
type document struct {
	Results json.RawMessage `json:"results"`
	Mutants json.RawMessage `json:"mutants"`
	Setup   json.RawMessage `json:"setup"`
}

// Read reads the files that -json has printed.
func Read(files []string) (Evidence, error) {
	var e Evidence
	var failed error
	for _, file := range files {
		if err := e.add(file); err != nil {
			failed = errors.Join(failed, fmt.Errorf("chaos: %s: %w", file, err))
		}
	}
	return e, failed
}

func (e *Evidence) add(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	switch {
	case d.Results != nil:
		return append1(&e.Scenarios, text)
	case d.Mutants != nil:
		var r mutant.Report
		err := json.Unmarshal(text, &r)
		e.Mutants = append(e.Mutants, r.Mutants...)
		return err
	case d.Setup != nil:
		return append1(&e.Runs, text)
	}
	return errors.New("neither scenarios nor mutants nor a run; give what -json has printed")
}

func append1[T any](list *[]T, text []byte) error {
	var one T
	err := json.Unmarshal(text, &one)
	*list = append(*list, one)
	return err
}

// Write writes the tables between their marks in a page. A table without
// evidence, or without marks in the page, stays as it is; one at least must
// have both.
func (e Evidence) Write(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	var lacking error
	written := false
	tables := map[string]string{
		"scenarios": e.scenarios(), "mutants": e.mutants(), "baselines": e.baselines(), "soak": e.soak(), "faults of the soak": e.soakFaults(),
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if tables[name] == "" {
			continue
		}
		changed, err := between(text, name, tables[name])
		if err != nil {
			lacking = errors.Join(lacking, fmt.Errorf("chaos: %s: %w", page, err))
			continue
		}
		text, written = changed, true
	}
	if !written {
		return lacking
	}
	return os.WriteFile(page, text, 0o644)
}

// between replaces what stands between the marks of a table.
func between(text []byte, name, table string) ([]byte, error) {
	begin, end := fmt.Sprintf("<!-- chaos: %s, written by `chaos publish` -->\n", name), fmt.Sprintf("<!-- chaos: end of %s -->", name)
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, okEnd := strings.Cut(rest, end)
	if !ok || !okEnd {
		return nil, fmt.Errorf("it lacks the lines %q and %q", begin, end)
	}
	return []byte(before + begin + table + end + after), nil
}
