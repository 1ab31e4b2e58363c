package fallback

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/observe"
)

// errForeign marks a database that was restored or copied from another
// server: claims that the original granted may be missing in it.
var errForeign = errors.New("this database was moved to another Postgres system")

func (p *Postgres) errForeign(id *identity) error {
	return fmt.Errorf("%w (the ledger in schema %q belongs to system %s, this is %s): "+
		"make sure that nothing uses the old one any more, then call fallback.Adopt or run `redfence migrate --adopt`",
		errForeign, p.cfg.Schema, id.ownSystem, id.system)
}

// newest is the server of the latest timeline that this process has met. One of
// an earlier timeline of the same system is an old primary that came back: what
// was claimed and completed since the promotion is unknown to it.
type newest struct {
	mu               sync.Mutex
	system, timeline string
}

func (n *newest) meet(id *identity) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id.system == n.system && id.timeline < n.timeline {
		return fmt.Errorf("%w: the server is on timeline %s, after this process has met timeline %s: it is an old primary that came back; "+
			"stop it, or make it a standby of the new one", ErrUnavailable, id.timeline, n.timeline)
	}
	n.system, n.timeline = id.system, id.timeline
	return nil
}

// errNoSchema says that the tables are not there.
func (p *Postgres) errNoSchema() error {
	return fmt.Errorf("%w: schema %q holds no ledger: run `redfence migrate`, or set fallback.Config.Migrate",
		ErrUnavailable, p.cfg.Schema)
}

// checkVersion compares the schema with what this binary understands.
func (p *Postgres) checkVersion(id *identity) error {
	switch {
	case id.minBinary > SchemaVersion:
		return fmt.Errorf("the schema (version %d) is too new for this binary: it needs one that knows version %d, this one knows %d: upgrade the program",
			id.version, id.minBinary, SchemaVersion)
	case id.version < SchemaVersion:
		return fmt.Errorf("the schema has version %d, this binary needs %d: run `redfence migrate`, or set fallback.Config.Migrate",
			id.version, SchemaVersion)
	}
	return nil
}

// adopt makes the server that c leads to the ledger's own, unless another
// session has done so meanwhile. It is one transaction under an advisory lock.
func (p *Postgres) adopt(ctx context.Context, c *pgx.Conn, id *identity) error {
	first := id.ownSystem == ""
	var fence int64
	adopted := false
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err == nil {
		defer tx.Rollback(ctx)
		adopted, fence, err = p.adoptIn(ctx, tx, id, first)
	}
	if err == nil {
		err = tx.Commit(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: adopt the server: %w", ErrUnavailable, err)
	}
	if adopted && !first {
		p.cfg.Observer.Observe(observe.LedgerAdopted{System: id.system, Timeline: id.timeline, Fence: fence})
	}
	if adopted {
		return nil
	}
	again, err := p.identify(ctx, c)
	if err == nil && !again.ours() {
		err = fmt.Errorf("%w: the ledger's identity changes while it is checked", ErrUnavailable)
	}
	return err
}

func (p *Postgres) adoptIn(ctx context.Context, tx pgx.Tx, id *identity, first bool) (adopted bool, fence int64, err error) {
	if err := p.durable(ctx, tx); err != nil {
		return false, 0, err
	}
	lock := load("adopt_lock", p.cfg.Schema, "")
	if _, err := tx.Exec(ctx, lock.text, advisoryKey(p.cfg.Schema, "adopt")); err != nil {
		return false, 0, err
	}
	err = tx.QueryRow(ctx, p.sql.adopt.text, id.ownSystem, id.ownTimeline, first).Scan(&fence)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, 0, nil
	}
	return err == nil, fence, err
}

// durable sets the transaction's durability and bounds, as each transaction of
// the ledger does.
func (p *Postgres) durable(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, p.sql.settings.text, p.settings...)
	return err
}

// Adopt makes the Postgres system behind the pool the ledger's own: after a
// restore or a move to another cluster, when Open refuses it. The operator
// answers for it that nothing uses the old system any more. Fences go on far
// above any that the old system can have granted, and take-overs rest until
// the longest lease ever granted has ended.
func Adopt(ctx context.Context, pool *pgxpool.Pool, cfg Config) error {
	p, err := newPostgres(pool, cfg)
	if err != nil {
		return err
	}
	conn, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	id, err := p.identify(ctx, conn.Conn())
	switch {
	case err != nil:
		return err
	case id.inRecovery:
		return fmt.Errorf("%w: the server is in recovery: adopt the primary", ErrUnavailable)
	case id.ours():
		return nil
	}
	return p.adopt(ctx, conn.Conn(), id)
}
