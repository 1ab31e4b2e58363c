package scenario

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/redfence/redfence/chaos/internal/check"
)

// Report is what came of several scenarios.
type Report struct {
	Engine  string   `json:"engine"`
	Mutant  string   `json:"mutant,omitempty"`
	Results []Result `json:"results"`
	// Verdict is the last line of the text, without "verdict: ".
	Verdict string `json:"verdict"`
	// Code is the exit code.
	Code int `json:"code"`
}

// survived is the exit code when a broken engine was not noticed.
const survived = 4

// NewReport sums results up: safety outweighs an invalid rig, which outweighs
// liveness.
func NewReport(results []Result, engine, mutant string) Report {
	r := Report{Engine: engine, Mutant: mutant, Results: results}
	worst := check.Fine
	for _, class := range []check.Class{check.Liveness, check.Invalid, check.Safety} {
		if slices.ContainsFunc(results, func(r Result) bool { return r.Class == class }) {
			worst = class
		}
	}
	name := worst.String()
	r.Code = int(worst)
	if mutant != "" && worst == check.Fine {
		name, r.Code = "mutant survived", survived
	}
	r.Verdict = fmt.Sprintf("%s (%d)", name, r.Code)
	return r
}

// Exit returns the exit code and the verdict.
func (r Report) Exit() (int, string) { return r.Code, r.Verdict }

// Text writes the results that are not fine and the verdict. (Each result was
// told when it came.)
func (r Report) Text(w io.Writer) error {
	fine, skipped := 0, 0
	for _, result := range r.Results {
		switch {
		case result.Skipped():
			skipped++
			continue
		case result.Class == check.Fine:
			fine++
			continue
		}
		if _, err := fmt.Fprintln(w, result); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d of %d scenarios went as they should\nverdict: %s\n", fine, len(r.Results)-skipped, r.Verdict)
	return err
}

// JSON writes the report as one JSON object.
func (r Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
