package mutant

import (
	"encoding/json"
	"fmt"
	"io"
)

// Report is what came of several mutants.
type Report struct {
	Mutants []Result `json:"mutants"`
	// Verdict is the last line of the text, without "verdict: ".
	Verdict string `json:"verdict"`
	// Code is the exit code.
	Code int `json:"code"`
}

// survived is the exit code when a broken engine was not noticed.
const survived = 4

// NewReport sums results up.
func NewReport(results []Result) Report {
	r := Report{Mutants: results, Verdict: "fine (0)"}
	if r.caught() < len(results) {
		r.Code = survived
		r.Verdict = fmt.Sprintf("mutant survived (%d)", survived)
	}
	return r
}

func (r Report) caught() (n int) {
	for _, m := range r.Mutants {
		if m.Caught {
			n++
		}
	}
	return n
}

// Exit returns the exit code and the verdict.
func (r Report) Exit() (int, string) { return r.Code, r.Verdict }

// Text writes the sum and the verdict. (Each result was told when it came.)
func (r Report) Text(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%d of %d mutants were caught\nverdict: %s\n", r.caught(), len(r.Mutants), r.Verdict)
	return err
}

// JSON writes the report as one JSON object.
func (r Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
