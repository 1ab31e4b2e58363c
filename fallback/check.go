package fallback

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A Finding is something about the database that the ledger's promises depend
// on and that is not as it should be.
type Finding struct {
	// Fatal findings keep Open from succeeding; the others weaken a promise or
	// cost speed.
	Fatal bool
	What  string
	Fix   string // the command or the setting
}

// checkSequence reports what would let the fence sequence hand out numbers in
// another order than that of the draws, or lose them.
func (p *Postgres) checkSequence(ctx context.Context, c *pgx.Conn) []Finding {
	var increment, cache int64
	var cycle bool
	var persistence string
	_, err := p.query(ctx, c, step{&p.sql.sequence, []any{p.cfg.Schema}, func(rows pgx.Rows) error {
		return rows.Scan(&increment, &cache, &cycle, &persistence)
	}})
	name := pgx.Identifier{p.cfg.Schema, "idempotency_fence"}.Sanitize()
	fatal := func(what, fix string, args ...any) Finding {
		return Finding{Fatal: true, What: "the fence sequence " + what, Fix: fmt.Sprintf(fix, args...)}
	}
	switch {
	case err != nil:
		return []Finding{fatal("cannot be looked up", "%v", err)}
	case persistence == "":
		return []Finding{fatal("is missing", "run `redfence migrate`")}
	}
	var found []Finding
	if cache != 1 {
		found = append(found, fatal(fmt.Sprintf("caches %d numbers in each session, so that fences would not grow in the order of the claims", cache),
			"run: ALTER SEQUENCE %s CACHE 1", name))
	}
	if increment != 1 {
		found = append(found, fatal(fmt.Sprintf("has increment %d", increment), "run: ALTER SEQUENCE %s INCREMENT 1", name))
	}
	if cycle {
		found = append(found, fatal("cycles", "run: ALTER SEQUENCE %s NO CYCLE", name))
	}
	if persistence != "p" {
		found = append(found, fatal("is not permanent: a crash would set it back", "run: ALTER SEQUENCE %s SET LOGGED", name))
	}
	return found
}
