package fallback

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
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

// oldestServer is the oldest PostgreSQL that the statements are written for.
const oldestServer = 14

// fewConns is what a ledger needs of its pool to work without waiting: one
// connection for each kind of batch.
const fewConns = 4

// Check looks at the database as `redfence doctor` prints it: nothing is
// changed, and a database that Open would refuse is looked at all the same. The
// error says that it could not be looked at.
func Check(ctx context.Context, pool *pgxpool.Pool, cfg Config) ([]Finding, error) {
	p, err := newPostgres(pool, cfg)
	if err != nil {
		return nil, err
	}
	conn, err := p.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	id, err := p.identify(ctx, conn.Conn())
	if err != nil {
		return nil, err
	}
	found := p.checkIdentity(id)
	found = append(found, p.checkSequence(ctx, conn.Conn())...)
	settings, err := p.checkSettings(ctx, conn.Conn())
	if err != nil {
		return nil, err
	}
	found = append(found, settings...)
	if n := pool.Config().MaxConns; n < fewConns {
		found = append(found, Finding{
			What: fmt.Sprintf("the pool has %d connections, so that kinds of batches wait for one another", n),
			Fix:  fmt.Sprintf("set pool_max_conns to %d or more", fewConns),
		})
	}
	return found, nil
}

func (p *Postgres) checkIdentity(id *identity) []Finding {
	switch err := p.checkVersion(id); {
	case err != nil:
		return []Finding{{Fatal: true, What: err.Error(), Fix: "redfence migrate"}}
	case id.inRecovery:
		return []Finding{{Fatal: true, What: "the server is in recovery (a standby)",
			Fix: "put target_session_attrs=read-write into the DSN"}}
	case id.ownSystem != "" && id.ownSystem != id.system:
		return []Finding{{Fatal: true, What: p.errForeign(id).Error(), Fix: "redfence migrate --adopt"}}
	}
	return nil
}

// checkSettings looks at what the role and the database set.
func (p *Postgres) checkSettings(ctx context.Context, c *pgx.Conn) (found []Finding, err error) {
	var version int
	var commit, fsync, pages, vacuum, persistence, missing string
	var sequence bool
	var keepalive int32
	check := load("check", p.cfg.Schema, "")
	err = c.QueryRow(ctx, check.text, p.cfg.Schema).Scan(
		&version, &commit, &fsync, &pages, &vacuum, &persistence, &missing, &sequence, &keepalive)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	add := func(bad, fatal bool, what, fix string) {
		if bad {
			found = append(found, Finding{fatal, what, fix})
		}
	}
	add(version < oldestServer*10000, true, fmt.Sprintf("the server is PostgreSQL %d", version/10000),
		fmt.Sprintf("use %d or newer", oldestServer))
	add(persistence != "p", true, "idempotency_keys is not a permanent table: a crash would empty it",
		"ALTER TABLE idempotency_keys SET LOGGED")
	add(missing != "", true, "the role lacks "+missing, "grant it: fallback.PrintGrants prints how")
	add(!sequence, true, "the role lacks UPDATE on the sequence idempotency_fence", "grant it: fallback.PrintGrants prints how")
	add(fsync != "on", false, "fsync is off: a crash of the machine loses acknowledged responses", "ALTER SYSTEM SET fsync = on")
	add(pages != "on", false, "full_page_writes is off: a crash may tear pages", "ALTER SYSTEM SET full_page_writes = on")
	add(commit != "on" && commit != "remote_apply", false,
		"synchronous_commit is "+commit+" for this role or database: the ledger's transactions override it, the application's own do not",
		"ALTER ROLE … RESET synchronous_commit, ALTER DATABASE … RESET synchronous_commit")
	add(vacuum != "on", false, "autovacuum is off: the table will grow", "ALTER SYSTEM SET autovacuum = on")
	add(keepalive > longestKeepalive, false,
		fmt.Sprintf("the server asks a silent client only after %v whether it still lives: until then the keys of one that is gone may be busy",
			time.Duration(keepalive)*time.Second),
		"set tcp_keepalives_idle = 30, tcp_keepalives_interval = 10, tcp_keepalives_count = 3 and tcp_user_timeout = 60s in postgresql.conf")
	return found, nil
}

// longestKeepalive is what tcp_keepalives_idle should not exceed, in seconds.
const longestKeepalive = 300

// checkSequence reports what would let the fence sequence hand out numbers in
// another order than that of the draws, or lose them.
func (p *Postgres) checkSequence(ctx context.Context, c *pgx.Conn) []Finding {
	var increment, cache int64
	var cycle bool
	var persistence string
	_, err := p.query(ctx, c, step{statement: &p.sql.sequence, args: []any{p.cfg.Schema}, scan: func(rows pgx.Rows) error {
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
