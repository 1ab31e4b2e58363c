package fallback

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// A NodeSet is the set of Redis nodes that engines on one ledger agreed on, as
// one text that they compare.
type NodeSet struct {
	Nodes string    // "" when none is recorded
	Since time.Time // zero when none is recorded
}

// A NodeSetKeeper records the set of Redis nodes, so that engines that share
// the ledger but not the nodes notice it.
type NodeSetKeeper interface {
	// NodeSet returns what is recorded.
	NodeSet(ctx context.Context) (NodeSet, error)
	// SetNodeSet records next if was is what is recorded, and reports whether
	// it did.
	SetNodeSet(ctx context.Context, was, next string) (bool, error)
}

var (
	_ NodeSetKeeper = (*Postgres)(nil)
	_ NodeSetKeeper = (*Memory)(nil)
)

// NodeSet implements NodeSetKeeper.
func (p *Postgres) NodeSet(ctx context.Context) (NodeSet, error) {
	var set NodeSet
	leave, err := p.enterAlone(ctx)
	if err != nil {
		return set, err
	}
	defer leave()
	bounded, cancel := p.bounded()
	defer cancel()
	err = p.with(bounded, func(c *pgx.Conn) error {
		var since *time.Time
		_, err := p.query(bounded, c, step{statement: &p.sql.nodeSet, args: nil, scan: func(rows pgx.Rows) error {
			return rows.Scan(&set.Nodes, &since)
		}})
		if since != nil {
			set.Since = *since
		}
		return err
	})
	return set, verdictOf(err)
}

// SetNodeSet implements NodeSetKeeper.
func (p *Postgres) SetNodeSet(ctx context.Context, was, next string) (recorded bool, err error) {
	leave, err := p.enterAlone(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	bounded, cancel := p.bounded()
	defer cancel()
	err = p.with(bounded, func(c *pgx.Conn) error {
		_, _, err := p.transact(bounded, c, []step{{statement: &p.sql.setNodeSet, args: []any{was, next}, scan: func(pgx.Rows) error {
			recorded = true
			return nil
		}}}, nil)
		return err
	})
	return recorded && err == nil, verdictOf(err)
}

// NodeSet implements NodeSetKeeper.
func (m *Memory) NodeSet(ctx context.Context) (NodeSet, error) {
	return locked(ctx, m, func(time.Time) (NodeSet, error) { return m.nodes, nil })
}

// SetNodeSet implements NodeSetKeeper.
func (m *Memory) SetNodeSet(ctx context.Context, was, next string) (bool, error) {
	return locked(ctx, m, func(now time.Time) (bool, error) {
		if m.nodes.Nodes != was {
			return false, nil
		}
		m.nodes = NodeSet{Nodes: next, Since: now}
		return true, nil
	})
}
