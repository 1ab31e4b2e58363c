// Command spec searches the protocol exhaustively, within bounds, for a
// history that breaks one of its promises, and shows for each rule the
// history that leaving it out allows. README.md says how to read it.
//
//	go run ./spec            # every run, about a minute
//	go run ./spec -run D5    # one, with its trace
package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// worldLimit ends a run that has grown out of its bounds.
const worldLimit = 6_000_000

func main() {
	only := flag.String("run", "", "run only this one, and print its trace")
	flag.Parse()
	failed := false
	for _, r := range Runs() {
		if *only != "" && *only != r.ID {
			continue
		}
		began := time.Now()
		res := r.Model.Explore(worldLimit, r.Finds)
		ok := r.verdict(res) == ""
		failed = failed || !ok
		fmt.Printf("%-4s %-26s %9d worlds %6.1fs  %s\n", r.ID, r.Model.Name, res.Worlds, time.Since(began).Seconds(), r.says(res))
		if *only != "" || !ok {
			for _, line := range res.Trace {
				fmt.Println("     ", line)
			}
		}
	}
	if failed {
		fmt.Println("verdict: a run disagrees with what its line says")
		os.Exit(1)
	}
	fmt.Println("verdict: the protocol breaks no promise, and each rule is needed")
}

func (r *Run) says(res Result) string {
	text := "as it stands"
	if r.Without != "" {
		text = "without " + string(r.Without)
	}
	switch {
	case res.Broken != "":
		text += fmt.Sprintf(": broken in %d steps: %s", len(res.Trace)-1, res.Broken)
	case !res.Complete:
		text += ": too many worlds"
	default:
		text += ": nothing found"
	}
	return text
}

// verdict returns what is wrong with a run's result, or "".
func (r *Run) verdict(res Result) string {
	switch {
	case r.Finds != res.Broken:
		return fmt.Sprintf("found %q, want %q", res.Broken, r.Finds)
	case r.Finds == "" && !res.Complete:
		return "not every world was explored"
	}
	return ""
}
