package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
)

type doctorCommand struct {
	nodeFlags
	ledgerFlags
	JSON bool `name:"json" help:"Print the findings as JSON."`
}

// A finding is one thing that is not as it should be.
type finding struct {
	// Fatal findings take a promise away or keep the engine from working; the
	// others weaken it or cost speed.
	Fatal bool   `json:"fatal"`
	Where string `json:"where"`
	What  string `json:"what"`
	Next  string `json:"next"`
}

// Run checks everything and tells each finding with its next step. It fails
// when one is fatal.
func (c doctorCommand) Run(a *app) error {
	var list problems.List
	clients := c.clients(&list)
	defer clients.close()
	pool := c.pool(a.ctx, &list)
	if pool != nil {
		defer pool.Close()
	}
	if err := invalid(&list); err != nil {
		return err
	}
	found := []finding{}
	for _, problem := range allProblems(node.CheckClients(clients.universal(), false)) {
		found = append(found, finding{true, "redis", problem.Error(), "correct --redis"})
	}
	if len(clients) == 1 {
		found = append(found, finding{false, "redis", "there is one node only: when it fails, every request takes the fallback route", "use 3 or 5 independent masters"})
	}
	if n := len(clients); n%2 == 0 {
		found = append(found, finding{true, "redis", fmt.Sprintf("%d nodes are an even number and survive no more failures than %d", n, n-1), "add one node or leave one out"})
	}
	found = append(found, checkNodes(a.ctx, clients)...)
	for _, f := range checkLedger(a.ctx, pool, fallback.Config{Schema: c.Schema}, clients) {
		f.Next = a.hint(f.Next)
		found = append(found, f)
	}
	return c.tell(a.stdout, found, len(clients))
}

func allProblems(err error) []error {
	if err == nil {
		return nil
	}
	return problems.All(err)
}

func (c doctorCommand) tell(w io.Writer, found []finding, nodes int) error {
	fatal := 0
	for _, f := range found {
		if f.Fatal {
			fatal++
		}
	}
	if c.JSON {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		if err := out.Encode(found); err != nil {
			return err
		}
	} else {
		tellFindings(w, found)
		fmt.Fprintf(w, "%d Redis nodes and the ledger checked: %d findings, %d of them fatal\n", nodes, len(found), fatal)
	}
	if fatal > 0 {
		return errFound
	}
	return nil
}

func tellFindings(w io.Writer, found []finding) {
	for _, f := range found {
		weight := "warning"
		if f.Fatal {
			weight = "FATAL"
		}
		fmt.Fprintf(w, "%-7s  %s: %s\n         next: %s\n", weight, f.Where, f.What, f.Next)
	}
}

// checkLedger asks the database and the ledger's own check, and compares the
// nodes with those that the ledger has recorded.
func checkLedger(ctx context.Context, pool *pgxpool.Pool, cfg fallback.Config, clients nodes) []finding {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		return []finding{{true, "postgres", "does not answer: " + oneLine(err), nextForPostgres}}
	}
	checked, err := fallback.Check(ctx, pool, cfg)
	if err != nil {
		return []finding{{true, "ledger", err.Error(), "run: redfence migrate"}}
	}
	var found []finding
	fatal := false
	for _, f := range checked {
		fatal = fatal || f.Fatal
		found = append(found, finding{f.Fatal, "ledger", f.What, f.Fix})
	}
	if fatal {
		return found // it cannot be opened
	}
	return append(found, checkRecordedNodes(ctx, pool, cfg, clients)...)
}

// checkRecordedNodes compares the nodes with the recorded ones.
func checkRecordedNodes(ctx context.Context, pool *pgxpool.Pool, cfg fallback.Config, clients nodes) []finding {
	cfg.Sweep.Off, cfg.Listen.Off = true, true
	ledger, err := fallback.Open(ctx, pool, cfg)
	if err != nil {
		return []finding{{true, "ledger", oneLine(err), "correct what it says"}}
	}
	defer ledger.Close()
	err = checkNodeSet(ctx, ledger, clients)
	var other *otherNodesError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &other):
		return []finding{{false, "redis", oneLine(err), "give every instance, and --redis here, the same nodes under the same names"}}
	}
	return []finding{{true, "ledger", oneLine(err), "correct what it says"}}
}
