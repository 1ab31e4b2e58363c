package main

import (
	"fmt"

	"github.com/redfence/redfence/fallback"
)

type migrateCommand struct {
	ledgerFlags
	Print bool `help:"Print the SQL instead of running it. Run it in one transaction."`
	Adopt bool `env:"-" help:"The database was restored or moved to another Postgres system, and nothing uses the old one any more: make this system the ledger's own."`
}

// Run brings the schema to this program's version.
func (c migrateCommand) Run(a *app) error {
	if c.Print {
		return fallback.PrintMigrations(a.stdout, c.Schema)
	}
	pool, err := c.connected(a.ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := fallback.Migrate(a.ctx, pool, c.Schema); err != nil {
		return err
	}
	if c.Adopt {
		if err := fallback.Adopt(a.ctx, pool, fallback.Config{Schema: c.Schema}); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(a.stdout, "the ledger in schema %q has version %d\n", c.Schema, fallback.SchemaVersion)
	return err
}
