package fallback

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Confirm implements Ledger. A row is seen before it is durable when a
// synchronous standby does not answer: the wait of a COMMIT that is cancelled,
// as drivers do when a context ends, leaves it visible here and nowhere else.
func (p *Postgres) Confirm(ctx context.Context, d Digest) (Record, error) {
	return valueOf(p.confirms.call(ctx, d, struct{}{}))
}

func (p *Postgres) runConfirms(batch []*ticket[struct{}, *Record]) {
	heal(p, batch, healer[struct{}, *Record]{
		try: p.tryConfirms,
		fail: func(t *ticket[struct{}, *Record], err error) {
			t.settle(nil, verdictOf(err))
		},
	})
}

func (p *Postgres) tryConfirms(batch []*ticket[struct{}, *Record]) error {
	records, err := p.confirmRows(digests(batch))
	if err != nil {
		return err
	}
	for _, t := range batch {
		t.settle(records[t.digest], nil)
	}
	return nil
}

// confirmRows waits for the claims in doubt about some rows, locks the rows and
// returns them once that is durable; those that do not exist are absent.
func (p *Postgres) confirmRows(of [][]byte) (map[Digest]*Record, error) {
	about := make(map[Digest][]doubt, len(of))
	sends := []int64{} // not nil, which would be NULL
	for _, raw := range of {
		d := Digest(raw)
		for _, x := range p.doubts.about(d) {
			about[d] = append(about[d], x)
			sends = append(sends, x.send)
		}
	}
	records, now, err := p.lockRows(of, sends)
	if err != nil {
		return nil, err
	}
	for d, waited := range about {
		p.doubts.settle(d, waited, now)
	}
	return records, nil
}

// lockRows is the transaction of confirmRows. now is when the last of the
// sends was over.
func (p *Postgres) lockRows(of [][]byte, sends []int64) (records map[Digest]*Record, now time.Time, err error) {
	ctx, cancel := p.bounded()
	defer cancel()
	records = make(map[Digest]*Record, len(of))
	var t timing
	wait := step{statement: &p.sql.wait, args: []any{sends}, scan: func(rows pgx.Rows) error { return rows.Scan(&now) }}
	err = p.with(ctx, func(c *pgx.Conn) (err error) {
		act := step{statement: &p.sql.confirm, args: []any{of}, scan: gather(records, readRecord)}
		t, _, err = p.transact(ctx, c, []step{wait, act}, nil)
		return err
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	p.clock.observe(now, t.boot)
	p.date(records, t)
	for _, raw := range of {
		d := Digest(raw)
		r, ok := records[d]
		if !ok {
			r = &Record{Digest: d}
			records[d] = r
		}
		r.Now = now // a claim that had not begun by then goes by it, not by when the row was locked
	}
	return records, now, nil
}
