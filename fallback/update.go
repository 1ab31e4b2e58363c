package fallback

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A renewal is a call of Renew, a parting one of Release or GiveBack.
type (
	renewal struct {
		Ref
		late bool
	}
	parting struct {
		Ref
		reason string
		// started: the handler ran, and what it may have left is settled.
		started bool
	}
)

// Renew implements Ledger.
func (p *Postgres) Renew(ctx context.Context, ref Ref, late bool) (Grant, error) {
	return p.renewals.call(ctx, ref.Digest, renewal{ref, late})
}

// Complete implements Ledger.
func (p *Postgres) Complete(ctx context.Context, c Completion) (Record, error) {
	c.Reason = plainText(c.Reason)
	return valueOf(p.completes.call(ctx, c.Digest, c))
}

// Release implements Ledger.
func (p *Postgres) Release(ctx context.Context, ref Ref, reason string) error {
	return p.part(ctx, parting{Ref: ref, reason: reason, started: true})
}

// GiveBack implements Ledger.
func (p *Postgres) GiveBack(ctx context.Context, ref Ref, reason string) error {
	return p.part(ctx, parting{Ref: ref, reason: reason})
}

func (p *Postgres) part(ctx context.Context, q parting) error {
	q.reason = plainText(q.reason)
	_, err := p.releases.call(ctx, q.Digest, q)
	return err
}

// An update says how one kind of compare-and-set on token and fence works.
// Its batch skips rows that another session has locked; those are tried again
// alone, with a wait.
type update[Q, R any] struct {
	batch  *batched
	alone  *statement // for one row
	args   func([]*ticket[Q, R]) []any
	reader rowReader
	// hit makes the answer of a row that the statement has changed.
	hit func(*Q, *Record, timing) R
	// miss judges a row that it has not changed: answered for good, or (ok
	// false) it should have been changed, so it was locked.
	miss func(*Q, *Record) (answer R, err error, ok bool)
}

func (p *Postgres) runRenewals(batch []*ticket[renewal, Grant]) {
	runUpdate(p, batch, &update[renewal, Grant]{
		batch: &p.sql.renew, alone: &p.sql.renewAlone,
		args: func(b []*ticket[renewal, Grant]) []any {
			return append(refArgs(b, func(q *renewal) *Ref { return &q.Ref }),
				bools(b, func(t *ticket[renewal, Grant]) bool { return t.ask.late }))
		},
		reader: readGrant,
		hit:    func(_ *renewal, r *Record, t timing) Grant { return r.grant(t.sent) },
		miss: func(q *renewal, r *Record) (Grant, error, bool) {
			return Grant{}, ErrRefused, !r.is(q.Ref) || !r.renewable(r.Now, q.late)
		},
	})
}

func (p *Postgres) runCompletions(batch []*ticket[Completion, *Record]) {
	runUpdate(p, batch, &update[Completion, *Record]{
		batch: &p.sql.complete, alone: &p.sql.completeAlone,
		args: func(b []*ticket[Completion, *Record]) []any {
			return append(refArgs(b, func(q *Completion) *Ref { return &q.Ref }),
				int4s(b, func(t *ticket[Completion, *Record]) int32 { return int32(t.ask.Status) }),
				blobs(b, func(t *ticket[Completion, *Record]) []byte { return t.ask.Response }),
				texts(b, func(t *ticket[Completion, *Record]) string { return t.ask.Reason }))
		},
		reader: readRecord,
		hit: func(q *Completion, r *Record, _ timing) *Record {
			r.Response = q.Response
			return r
		},
		miss: func(q *Completion, r *Record) (*Record, error, bool) {
			if r.is(q.Ref) && r.State == Completed {
				return r, nil, true
			}
			return nil, ErrRefused, !r.is(q.Ref) || !r.open()
		},
	})
}

func (p *Postgres) runReleases(batch []*ticket[parting, *Record]) {
	runUpdate(p, batch, &update[parting, *Record]{
		batch: &p.sql.release, alone: &p.sql.releaseAlone,
		args: func(b []*ticket[parting, *Record]) []any {
			return append(refArgs(b, func(q *parting) *Ref { return &q.Ref }),
				texts(b, func(t *ticket[parting, *Record]) string { return t.ask.reason }),
				bools(b, func(t *ticket[parting, *Record]) bool { return t.ask.started }))
		},
		reader: readRecord,
		hit:    func(_ *parting, r *Record, _ timing) *Record { return r },
		miss: func(q *parting, r *Record) (*Record, error, bool) {
			if r.is(q.Ref) && r.State == Released {
				return r, nil, true
			}
			return nil, ErrRefused, !r.is(q.Ref) || !r.open()
		},
	})
}

// refArgs are the parameters that every compare-and-set begins with.
func refArgs[Q, R any](batch []*ticket[Q, R], ref func(*Q) *Ref) []any {
	return []any{
		keys(batch),
		blobs(batch, func(t *ticket[Q, R]) []byte { return ref(&t.ask).Token[:] }),
		int8s(batch, func(t *ticket[Q, R]) int64 { return ref(&t.ask).Fence }),
	}
}

// runUpdate answers a batch of compare-and-sets. All are safe to send twice.
func runUpdate[Q, R any](p *Postgres, batch []*ticket[Q, R], u *update[Q, R]) {
	heal(p, batch, healer[Q, R]{
		try: func(part []*ticket[Q, R]) error { return tryUpdate(p, part, u) },
		fail: func(t *ticket[Q, R], err error) {
			var none R
			t.settle(none, verdictOf(err))
		},
	})
}

// tryUpdate sends a batch and settles the rows that it changed. The others are
// read, and settled by what they are; those that were locked follow alone.
func tryUpdate[Q, R any](p *Postgres, batch []*ticket[Q, R], u *update[Q, R]) error {
	changed := make(map[Digest]*Record, len(batch))
	t, err := p.change(u.batch.step(len(batch), u.args(batch), gather(changed, u.reader)), changed)
	if err != nil {
		return err
	}
	for _, ticket := range batch {
		if r, ok := changed[ticket.digest]; ok {
			ticket.settle(u.hit(&ticket.ask, r, t), nil)
		}
	}
	missed := open(batch)
	if len(missed) == 0 {
		return nil
	}
	if locked := settleMisses(p, missed, u); len(locked) > 0 {
		aside(p, func() {
			for _, t := range locked {
				updateAlone(p, t, u)
			}
		})
	}
	return nil
}

// settleMisses reads the rows that a statement has not changed, settles those
// that it could not change and returns those that it should have. What is so
// already counts once it is durable.
func settleMisses[Q, R any](p *Postgres, missed []*ticket[Q, R], u *update[Q, R]) (locked []*ticket[Q, R]) {
	rows, failed := p.readApart(digests(missed))
	var already []*ticket[Q, R]
	for _, ticket := range missed {
		var none R
		if err := failed[ticket.digest]; err != nil {
			ticket.settle(none, verdictOf(err))
			continue
		}
		switch _, refusal, ok := u.miss(&ticket.ask, rows[ticket.digest]); {
		case !ok:
			locked = append(locked, ticket)
		case refusal != nil:
			ticket.settle(none, refusal)
		default:
			already = append(already, ticket)
		}
	}
	if len(already) > 0 {
		settleAlready(p, already, u)
	}
	return locked
}

// settleAlready answers those whose row is what they want: an earlier send of
// theirs has made it so, and may not be durable yet.
func settleAlready[Q, R any](p *Postgres, batch []*ticket[Q, R], u *update[Q, R]) {
	heal(p, batch, healer[Q, R]{
		try: func(part []*ticket[Q, R]) error {
			rows, err := p.confirmRows(digests(part))
			if err != nil {
				return err
			}
			for _, t := range part {
				answer, verdict, ok := u.miss(&t.ask, rows[t.digest])
				if !ok {
					verdict = fmt.Errorf("%w: the row changes while it is confirmed", ErrBusy)
				}
				t.settle(answer, verdict)
			}
			return nil
		},
		fail: func(t *ticket[Q, R], err error) {
			var none R
			t.settle(none, verdictOf(err))
		},
	})
}

// updateAlone waits for a locked row, up to lock_timeout.
func updateAlone[Q, R any](p *Postgres, one *ticket[Q, R], u *update[Q, R]) {
	just := []*ticket[Q, R]{one}
	var none R
	for range maxTries {
		changed := map[Digest]*Record{}
		t, err := p.change(step{statement: u.alone, args: u.args(just), scan: gather(changed, u.reader)}, changed)
		if err != nil {
			one.settle(none, verdictOf(err))
			return
		}
		if r, ok := changed[one.digest]; ok {
			one.settle(u.hit(&one.ask, r, t), nil)
			return
		}
		if len(settleMisses(p, just, u)) == 0 {
			return
		}
	}
	one.settle(none, fmt.Errorf("%w: the row changes while it is updated", ErrBusy))
}

// change runs a step in a transaction of its own. The rows that it gathers in
// changed count once it has returned without an error.
func (p *Postgres) change(act step, changed map[Digest]*Record) (t timing, err error) {
	ctx, cancel := p.bounded()
	defer cancel()
	err = p.with(ctx, func(c *pgx.Conn) (err error) {
		t, _, err = p.transact(ctx, c, []step{act}, nil)
		return err
	})
	if err == nil {
		p.date(changed, t)
	}
	return t, err
}
