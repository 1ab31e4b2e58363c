package fallback

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Filter says which rows to list. The zero value lists the first 100.
type Filter struct {
	// State of the rows; Absent is every state.
	State State
	// After is the digest to go on after.
	After Digest
	// Limit defaults to 100.
	Limit int
}

// A Lister lists rows, for people. Listing reads many rows: keep it away from
// the path of requests.
type Lister interface {
	// List returns rows in the order of their digests, without responses.
	List(ctx context.Context, f Filter) ([]Record, error)
	// Audits returns the decisions about one key, oldest first.
	Audits(ctx context.Context, d Digest) ([]Audit, error)
}

var (
	_ Lister = (*Postgres)(nil)
	_ Lister = (*Memory)(nil)
)

// List implements Lister.
func (p *Postgres) List(ctx context.Context, f Filter) (rows []Record, err error) {
	orInt(&f.Limit, 100)
	state := ""
	if f.State != Absent {
		state = f.State.String()
	}
	err = p.look(ctx, step{statement: &p.sql.list, args: []any{state, f.After[:], int64(f.Limit)}, scan: func(r pgx.Rows) error {
		rec, err := readRecord(r)
		if err == nil {
			rows = append(rows, *rec)
		}
		return err
	}})
	return rows, err
}

// Audits implements Lister.
func (p *Postgres) Audits(ctx context.Context, d Digest) (audits []Audit, err error) {
	err = p.look(ctx, step{statement: &p.sql.audits, args: []any{d[:]}, scan: func(r pgx.Rows) error {
		a := Audit{Digest: d}
		err := r.Scan(&a.At, &a.Fence, &a.Action, &a.Who, &a.Why)
		audits = append(audits, a)
		return err
	}})
	return audits, err
}

// look runs one read for people.
func (p *Postgres) look(ctx context.Context, s step) error {
	leave, err := p.enterAlone(ctx)
	if err != nil {
		return err
	}
	defer leave()
	bounded, cancel := p.bounded()
	defer cancel()
	return verdictOf(p.with(bounded, func(c *pgx.Conn) error {
		_, err := p.query(bounded, c, s)
		return err
	}))
}

// List implements Lister.
func (m *Memory) List(ctx context.Context, f Filter) ([]Record, error) {
	orInt(&f.Limit, 100)
	return locked(ctx, m, func(now time.Time) ([]Record, error) {
		var rows []Record
		for d, row := range m.rows {
			if bytes.Compare(d[:], f.After[:]) > 0 && (f.State == Absent || row.State == f.State) {
				c := *copyOf(row, now)
				c.Response = nil
				rows = append(rows, c)
			}
		}
		slices.SortFunc(rows, func(a, b Record) int { return bytes.Compare(a.Digest[:], b.Digest[:]) })
		return rows[:min(len(rows), f.Limit)], nil
	})
}

// Audits implements Lister.
func (m *Memory) Audits(ctx context.Context, d Digest) ([]Audit, error) {
	return locked(ctx, m, func(time.Time) ([]Audit, error) {
		var of []Audit
		for _, a := range m.audits {
			if a.Digest == d {
				of = append(of, a)
			}
		}
		return of, nil
	})
}
