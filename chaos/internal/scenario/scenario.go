// Package scenario plays interleavings that were thought of beforehand, on
// real processes that stop at named failpoints. Random chaos seldom meets
// them; these are the gate, random chaos is the search.
package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/cluster"
)

// A Scenario is one interleaving.
type Scenario struct {
	// Letter and Name identify it; either may be given to Select.
	Letter, Name string
	// Says what happens in it, in a line.
	Says string
	play func(*stage)
}

// limit bounds one scenario.
const limit = 60 * time.Second

// All returns every scenario, in order.
func All() []Scenario {
	return slices.Concat(redisScenarios, ownerScenarios, ledgerScenarios, ruleScenarios)
}

// Select returns the scenarios that a list of letters and names separated by
// commas asks for; "all" asks for every one.
func Select(list string) ([]Scenario, error) {
	if list == "all" {
		return All(), nil
	}
	var chosen []Scenario
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		i := slices.IndexFunc(All(), func(s Scenario) bool { return s.Letter == word || s.Name == word })
		if i < 0 {
			return nil, fmt.Errorf("chaos: no scenario %q; there are:\n%s", word, Names())
		}
		chosen = append(chosen, All()[i])
	}
	return chosen, nil
}

// Names lists letters and names, a line each.
func Names() string {
	var b strings.Builder
	for _, s := range All() {
		fmt.Fprintf(&b, "  %-3s %-32s %s\n", s.Letter, s.Name, s.Says)
	}
	return b.String()
}

// Result is how one scenario ended.
type Result struct {
	Letter string        `json:"letter"`
	Name   string        `json:"name"`
	Class  check.Class   `json:"class"`
	What   string        `json:"what,omitempty"`
	Took   time.Duration `json:"took"`
}

// Options say how to play.
type Options struct {
	// Binary is the instance binary, built with the tag chaos.
	Binary string
	// Dir takes a folder per scenario.
	Dir string
	// Mutant is the rule that the instances break on purpose.
	Mutant string
	// Engine is what the instances serve with. Empty: ours.
	Engine string
	// Progress gets a line per scenario. Nil: nothing is told.
	Progress io.Writer
	// StopAtFailure ends at the first scenario that fails.
	StopAtFailure bool
}

// nodes is how many Redis nodes the scenarios are written for.
const nodes = 5

// Play plays the scenarios one after the other on the same servers. The error
// says that the rig failed; what the engine did wrong is in the results.
func Play(ctx context.Context, chosen []Scenario, o Options) (results []Result, err error) {
	stores, err := cluster.StartStores(ctx, nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	for _, s := range chosen {
		r, err := playOne(ctx, s, stores, o)
		if err != nil {
			return results, fmt.Errorf("chaos: scenario %s: %w", s.Name, err)
		}
		results = append(results, r)
		if o.Progress != nil {
			_, _ = fmt.Fprintln(o.Progress, r)
		}
		if r.Class != check.Fine && o.StopAtFailure || ctx.Err() != nil {
			break
		}
	}
	return results, ctx.Err()
}

// Skipped reports whether the scenario says nothing about the engine; What
// says why.
func (r Result) Skipped() bool { return r.Class == check.Fine && r.What != "" }

// String is the line of a result.
func (r Result) String() string {
	verdict := "ok"
	switch {
	case r.Skipped():
		verdict = "skipped"
	case r.Class != check.Fine:
		verdict = strings.ToUpper(r.Class.String())
	}
	line := fmt.Sprintf("%-12s %-3s %-32s %5.1fs", verdict, r.Letter, r.Name, r.Took.Seconds())
	if r.What != "" {
		line += "  " + r.What
	}
	return line
}

func playOne(ctx context.Context, s Scenario, stores *cluster.Stores, o Options) (r Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	st, err := newStage(ctx, stores, o, s.Name)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	r = Result{Letter: s.Letter, Name: s.Name}
	r.Class, r.What = st.perform(s.play)
	r.Took = time.Since(began)
	return r, nil
}
