package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/problems"
)

type listCommand struct {
	ledgerFlags
	State string `env:"-" placeholder:"NAME" help:"Only keys in this state: processing, completed, unknown, released, streaming or tombstone."`
	Limit int    `default:"100" help:"How many keys to list at most."`
	Scope string `env:"-" help:"Only keys of this tenant or user. The whole ledger is read for them."`
	After string `env:"-" placeholder:"DIGEST" help:"Go on after this digest, the last one of an earlier list."`
}

// Run lists keys in the order of their digests. It needs the ledger only.
func (c listCommand) Run(a *app) (err error) {
	filter, err := c.filter()
	if err != nil {
		return err
	}
	pool, err := c.connected(a.ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	ledger, err := fallback.Open(a.ctx, pool, fallback.Config{
		Schema: c.Schema, Sweep: fallback.Sweep{Off: true}, Listen: fallback.Listen{Off: true},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	ctx, cancel := context.WithTimeout(a.ctx, 30*time.Second)
	defer cancel()
	_, scoped := a.given["scope"]
	rows, err := c.rows(ctx, ledger, filter, scoped)
	if err != nil {
		return err
	}
	tab := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "NAMESPACE\tSCOPE\tID\tSTATE\tFENCE\tOWNER\tCLAIMED\tREASON\tDIGEST")
	for _, r := range rows {
		fmt.Fprintf(tab, "%s\t%q\t%q\t%s\t%d\t%s\t%s\t%s\t%s\n", r.Key.Namespace, r.Key.Scope, r.Key.ID, r.State, r.Fence,
			r.Owner, r.ClaimedAt.UTC().Format(time.RFC3339), r.Reason, r.Digest)
	}
	return tab.Flush()
}

// rows reads pages until there are as many rows as wanted, or no more.
func (c listCommand) rows(ctx context.Context, ledger fallback.Lister, filter fallback.Filter, scoped bool) ([]fallback.Record, error) {
	var wanted []fallback.Record
	for {
		page, err := ledger.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if (!scoped || r.Key.Scope == c.Scope) && len(wanted) < c.Limit {
				wanted = append(wanted, r)
			}
		}
		if len(wanted) == c.Limit || len(page) < filter.Limit {
			return wanted, nil
		}
		filter.After = page[len(page)-1].Digest
	}
}

func (c listCommand) filter() (fallback.Filter, error) {
	var list problems.List
	f := fallback.Filter{Limit: c.Limit}
	if c.State != "" {
		var ok bool
		if f.State, ok = stateNamed(c.State); !ok {
			list.Add("--state: unknown %q; use processing, completed, unknown, released, streaming or tombstone", c.State)
		}
	}
	if c.Limit < 1 {
		list.Add("--limit: %d; at least 1", c.Limit)
	}
	if c.After != "" {
		digest, err := hex.DecodeString(c.After)
		if err != nil || len(digest) != len(f.After) {
			list.Add("--after: not a digest of %d hexadecimal digits", 2*len(f.After))
		}
		copy(f.After[:], digest)
	}
	return f, invalid(&list)
}

// stateNamed finds a state of rows by its name.
func stateNamed(name string) (fallback.State, bool) {
	for s := fallback.Absent + 1; s.Known(); s++ {
		if strings.EqualFold(s.String(), name) {
			return s, true
		}
	}
	return fallback.Absent, false
}
