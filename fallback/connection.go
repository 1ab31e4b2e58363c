package fallback

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// identity is what a connection is connected to, and what the meta row says.
type identity struct {
	system, timeline       string
	inRecovery             bool
	version, minBinary     int
	ownSystem, ownTimeline string // of the meta row; empty: not recorded yet
	maxLeaseUS             int64
	now                    time.Time
}

// ours reports whether the connection leads to the ledger that the meta row
// was adopted for.
func (i *identity) ours() bool { return i.system == i.ownSystem && i.timeline == i.ownTimeline }

// with runs do on a connection of the pool that has been admitted. A
// connection that turned out unfit is closed, and the pool discards it.
func (p *Postgres) with(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := p.acquire(ctx)
	if err != nil {
		return &attemptError{notSent, err}
	}
	defer conn.Release()
	c := conn.Conn()
	if err := p.admit(ctx, c); err != nil {
		return &attemptError{notSent, err}
	}
	err = do(c)
	if unfit(err) {
		discard(c)
	}
	return err
}

// acquire takes a connection of the caller's pool. A pool whose connections
// are all in use is this process's overload; all else is the ledger's.
func (p *Postgres) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, p.cfg.AcquireTimeout)
	defer cancel()
	conn, err := p.pool.Acquire(bounded)
	if err == nil {
		return conn, nil
	}
	stat := p.pool.Stat()
	if errors.Is(err, context.DeadlineExceeded) && stat.AcquiredConns() >= stat.MaxConns() {
		return nil, fmt.Errorf("%w: no connection of the pool (%d) became free within %v",
			ErrOverloaded, stat.MaxConns(), p.cfg.AcquireTimeout)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// admittedKey marks a connection that leads to this ledger.
func (p *Postgres) admittedKey() string { return "redfence " + p.cfg.Schema }

// admit checks a connection once (R14): not in recovery, a schema that this
// binary understands, the identity that the ledger was adopted for.
func (p *Postgres) admit(ctx context.Context, c *pgx.Conn) error {
	marks := c.PgConn().CustomData()
	if marks[p.admittedKey()] != nil {
		return nil
	}
	id, err := p.identify(ctx, c)
	if err == nil {
		err = p.judge(ctx, c, id)
	}
	if err != nil {
		if !staysUseful(err) { // it may lead elsewhere after a fail-over: never reuse it
			discard(c)
		}
		return err
	}
	marks[p.admittedKey()] = true
	return nil
}

// meetAgain identifies the server once more, and takes a reading of its clock:
// through a pooler it may have changed behind a connection that was admitted
// (a fail-over), and any server's clock can be stepped.
func (p *Postgres) meetAgain() error {
	ctx, cancel := p.bounded()
	defer cancel()
	return p.with(ctx, func(c *pgx.Conn) error {
		id, err := p.identify(ctx, c)
		if err != nil {
			return err
		}
		return p.judge(ctx, c, id)
	})
}

// staysUseful reports errors after which the same connection may well be admitted
// later.
func staysUseful(err error) bool { return errors.Is(err, errForeign) }

// identify asks the connection what it is connected to.
func (p *Postgres) identify(ctx context.Context, c *pgx.Conn) (*identity, error) {
	var id *identity
	t, err := p.query(ctx, c, step{statement: &p.sql.identity, scan: func(rows pgx.Rows) error {
		id = new(identity)
		return rows.Scan(&id.system, &id.timeline, &id.inRecovery, &id.version, &id.minBinary,
			&id.ownSystem, &id.ownTimeline, &id.maxLeaseUS, &id.now)
	}})
	switch {
	case code(err) == "42P01", code(err) == "3F000":
		return nil, p.errNoSchema()
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case id == nil:
		return nil, fmt.Errorf("%w: %w in schema %q", ErrUnavailable, errNoMeta, p.cfg.Schema)
	}
	p.clock.observe(id.now, t.boot)
	return id, nil
}

// judge refuses what must not arbitrate, and adopts what may be adopted
// without asking.
func (p *Postgres) judge(ctx context.Context, c *pgx.Conn, id *identity) error {
	if id.inRecovery {
		return fmt.Errorf("%w: the server is in recovery (a standby): put target_session_attrs=read-write into the DSN", ErrUnavailable)
	}
	if err := p.checkVersion(id); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if id.ownSystem != "" && id.ownSystem != id.system {
		return fmt.Errorf("%w: %w", ErrUnavailable, p.errForeign(id))
	}
	if err := p.newest.meet(id); err != nil {
		return err
	}
	if id.ours() {
		return nil
	}
	return p.adopt(ctx, c, id)
}
