// Package mutant breaks the engine on purpose, one rule at a time, and sees to
// it that somebody notices: a harness that lets a broken engine pass is not
// worth its verdict.
package mutant

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redfence/redfence/chaos/internal/check"
)

// A Mutant is an engine with one rule broken. The rule is broken where it
// lives, by a hook of package failpoint or by another text of a statement or
// script, in builds with the tag chaos only.
type Mutant struct {
	// Name is what REDFENCE_MUTANT says.
	Name string
	// Rule of docs/PROTOCOL.md that is broken.
	Rule string
	// Breaks says what it does.
	Breaks string
	// Killer is what must notice.
	Killer Killer
}

// A Killer is a scenario, or a test of a package that is run in a build with
// the tag chaos. Shows is part of what it says: a mutant that only crashes, or
// makes the rig fail, is not caught.
type Killer struct {
	Scenario string      // by name
	Class    check.Class // of the scenario's result
	Package  string      // of the test, from the module's root
	Test     string      // as -run takes it
	Shows    string
}

// String names the killer.
func (k Killer) String() string {
	if k.Scenario != "" {
		return "scenario " + k.Scenario
	}
	if k.Package == "." {
		return fmt.Sprintf("test %s of the root package", k.Test)
	}
	return fmt.Sprintf("test %s of %s", k.Test, k.Package)
}

func scenarioSafety(name, shows string) Killer {
	return Killer{Scenario: name, Class: check.Safety, Shows: shows}
}

func test(pkg, name, shows string) Killer {
	return Killer{Package: pkg, Test: name, Shows: shows}
}

var table = []Mutant{
	{"no-ledger-claim", "§2, R10", "the primary route starts the handler without a claim in the ledger",
		scenarioSafety("finished-in-redis-only", "double start")},
	{"takeover-under-hold", "§3", "a lapsed claim is taken over although its row says Hold",
		scenarioSafety("owner-dies-after-its-effect", "double start")},
	{"finders-policy", "§3", "a lapsed claim is treated by the policy of whoever finds it",
		scenarioSafety("rows-own-policy", "double start")},
	{"completion-without-fence", "R6", "a completion does not compare token and fence",
		scenarioSafety("stale-claim-completes", "the stale claim has completed")},
	{"reply-before-completion", "R3", "the reply leaves while the completion is on its way",
		scenarioSafety("owner-dies-before-its-completion", "not in the ledger")},
	{"put-before-completion", "R12", "the response is cached before the ledger has it",
		scenarioSafety("owner-dies-before-its-completion", "not in the ledger")},
	{"taken-is-in-progress", "R7", "a taken lock is answered as in progress without reading the row",
		scenarioSafety("taken-lock-of-a-finished-key", "refused after an answer")},
	{"contention-trips-breaker", "R9", "a lock that is taken counts against the quorum",
		Killer{Scenario: "contention-is-no-outage", Class: check.Liveness, Shows: "by the fallback route"}},
	{"asynchronous-commit", "R14", "the ledger commits asynchronously",
		scenarioSafety("asynchronous-commit", "double start")},
	{"sweeper-deletes-processing", "§3", "the sweeper deletes rows whose claim has lapsed",
		scenarioSafety("asked-long-after-the-lapse", "double start")},
	{"fingerprint-ignored", "R2", "requests of a key are not compared",
		scenarioSafety("another-request-same-key", "another request was answered")},
	{"token-is-instance", "§1", "the token of a claim names its process and not its attempt",
		scenarioSafety("reply-of-a-denied-claim-lost", "double start")},
	{"expiry-from-claim", "§3", "the retention counts from the claim",
		scenarioSafety("retention-counts-from-the-completion", "double start")},

	{"scope-left-out", "§1", "the scope is no part of the key",
		test(".", "TestI20TenantsNeverMeet", `got "A|k"`)},
	{"dotx-unconfirmed-response", "R4", "DoTx answers although its COMMIT is not confirmed",
		test(".", "TestI42LostCommit", "0 effects, want 1")},
	{"verdict-before-commit", "R1", "the rows of a claim count before its COMMIT is confirmed",
		test("fallback", "TestVerdictNeedsCommit", "granted &{")},
	{"fence-drawn-early", "R1", "the fence of a claim that meets a row is drawn before the row's lock is had",
		test("fallback", "TestFenceIsDrawnUnderTheRowsLock", "after fence")},
	{"release-by-delete", "§3", "a release deletes the row",
		test("fallback", "TestPostgresConformance/I56", "released")},
	{"resolve-keeps-fence", "§3", "a decision about an unknown key keeps its fence",
		test("fallback", "TestPostgresConformance/I39", "decided:")},

	{"unlock-without-compare", "§5", "a release deletes whatever lock is there",
		test("lock", "TestL05_NodesKnowBetter", "another's lock was removed")},
	{"acquire-not-idempotent", "§5", "an acquire does not recognise its own earlier success",
		test("lock", "TestScriptAcquire", "want 0")},
	{"extend-re-creates", "§5", "an extension makes a lock that has lapsed",
		test("lock", "TestScriptExtendAndSeed", "an extension made a lock")},
	{"restart-guard-off", "§5", "a node that has lost its memory votes at once",
		test("lock", "TestL28_RestartedEmpty", "the stand-alone lock was granted")},
	{"lost-signal-late", "§5", "a holder is told that its lock is lost a TTL late",
		test("lock", "TestL14_CutOffFromAllNodes", "after a rival held")},
	{"lock-token-is-instance", "§5", "the token of a lock names its process and not its try",
		test("lock", "TestConformance/unguarded_direct/taken", "a second holder")},
	{"cleanup-without-try", "§5", "the clean-up of a losing try does not say which try it cleans up",
		test("lock", "TestLateCleanUpLeavesLaterTriesAlone", "has deleted the lock")},
}

// All returns every mutant, in the order of the table.
func All() []Mutant { return slices.Clone(table) }

// Names returns the names of all.
func Names() []string {
	names := make([]string, len(table))
	for i, m := range table {
		names[i] = m.Name
	}
	return names
}

// Select returns the mutants that a list of names separated by commas asks
// for: "all" asks for every one, "today" for three by the day of the year, so
// that each has its turn.
func Select(list string, dayOfYear int) ([]Mutant, error) {
	switch list {
	case "all":
		return All(), nil
	case "today":
		return rotated(dayOfYear, 3), nil
	}
	var chosen []Mutant
	for name := range strings.SplitSeq(list, ",") {
		i := slices.Index(Names(), strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("chaos: no mutant %q; there are:\n%s", name, List())
		}
		chosen = append(chosen, table[i])
	}
	return chosen, nil
}

func rotated(turn, n int) []Mutant {
	var chosen []Mutant
	for i := range n {
		chosen = append(chosen, table[(turn*n+i)%len(table)])
	}
	return chosen
}

// List describes all, a line each.
func List() string {
	var b strings.Builder
	for _, m := range table {
		fmt.Fprintf(&b, "  %-26s %-8s %s; %v\n", m.Name, m.Rule, m.Breaks, m.Killer)
	}
	return b.String()
}
