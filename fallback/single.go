package fallback

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// seatsAlone bounds how many single statements of a ledger are under way: a
// burst of them waits for a seat, not for every connection of the pool.
const seatsAlone = 4

// enterAlone lets one single statement in. The context counts until then.
func (p *Postgres) enterAlone(ctx context.Context) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.standing.Add(1) > int64(p.cfg.MaxQueue) {
		p.standing.Add(-1)
		return nil, ErrOverloaded
	}
	defer p.standing.Add(-1)
	select {
	case p.seats <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !p.work.join() {
		<-p.seats
		return nil, ErrClosed
	}
	return func() {
		<-p.seats
		p.work.leave()
	}, nil
}

// alone runs one statement about one row, and reads the row back in the same
// round trip in case the statement does not change it. hit is the changed row,
// row the one that was read. before goes before the statement, in its
// transaction.
func (p *Postgres) alone(act step, d Digest, read rowReader, before ...step) (hit, row *Record, err error) {
	for range maxTries {
		hit, row, err = p.aloneOnce(act, d, read, before)
		if err == nil || howFar(err) == inDoubt || !retryable(err) || code(err) == codeLockTimeout {
			return hit, row, err
		}
	}
	return hit, row, err
}

func (p *Postgres) aloneOnce(act step, d Digest, read rowReader, before []step) (hit, row *Record, err error) {
	ctx, cancel := p.bounded()
	defer cancel()
	standing := make(map[Digest]*Record)
	var t timing
	var committed bool
	act.scan = func(rows pgx.Rows) (err error) {
		hit, err = read(rows)
		return err
	}
	err = p.with(ctx, func(c *pgx.Conn) (err error) {
		after := p.readStep([][]byte{d[:]}, standing)
		t, committed, err = p.transact(ctx, c, append(slices.Clip(before), act), &after)
		return err
	})
	if committed && hit != nil {
		p.clock.observe(hit.Now, t.boot)
		g := hit.grant(t.sent)
		hit.Grant = &g
		return hit, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	p.date(standing, t)
	if row = standing[d]; row == nil {
		row = &Record{Digest: d}
	}
	return nil, row, nil
}

// own runs one of the owner's statements. done reports whether the row already
// is what the owner wants: the first send of this call has made it so.
func (p *Postgres) own(ctx context.Context, s *statement, ref Ref, args []any, done func(*Record) bool) (*Record, error) {
	leave, err := p.enterAlone(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	hit, row, err := p.alone(step{statement: s, args: append([]any{ref.Digest[:], ref.Token[:], ref.Fence}, args...)}, ref.Digest, readRecord)
	switch {
	case err != nil:
		return nil, verdictOf(err)
	case hit != nil:
		return hit, nil
	case row.is(ref) && done(row):
		return p.already(ref.Digest, func(r *Record) bool { return r.is(ref) && done(r) })
	}
	return nil, ErrRefused
}

// already returns a row that is what its caller wants, once that is durable.
func (p *Postgres) already(d Digest, done func(*Record) bool) (*Record, error) {
	rows, err := p.confirmRows([][]byte{d[:]})
	if err != nil {
		return nil, verdictOf(err)
	}
	if r := rows[d]; done(r) {
		return r, nil
	}
	return nil, ErrRefused
}

// Abandon implements Ledger.
func (p *Postgres) Abandon(ctx context.Context, ref Ref, reason string) error {
	_, err := p.own(ctx, &p.sql.abandon, ref, []any{plainText(reason)},
		func(r *Record) bool { return r.State == Unknown })
	return err
}

// Stream implements Ledger.
func (p *Postgres) Stream(ctx context.Context, ref Ref) (Grant, error) {
	r, err := p.own(ctx, &p.sql.stream, ref, nil, func(*Record) bool { return false })
	if err != nil {
		return Grant{}, err
	}
	return *r.Grant, nil
}

// Bury implements Ledger.
func (p *Postgres) Bury(ctx context.Context, b Burial) (Record, error) {
	r, err := p.own(ctx, &p.sql.bury, b.Ref, []any{int32(b.Status), b.Size, plainText(b.Reason)},
		func(r *Record) bool { return r.State == Tombstone })
	if err != nil {
		return Record{}, err
	}
	r.Grant = nil
	return *r, nil
}

// Lapse implements Ledger.
func (p *Postgres) Lapse(ctx context.Context, d Digest, fence int64) (Record, error) {
	r, changed, err := p.found(ctx, &p.sql.lapse, d, []any{fence})
	if err == nil && !changed && p.unnamed && r.Fence == fence && r.deadEnd(r.Now) {
		err = verdictOf(p.meetAgain()) // it should have lapsed
	}
	return r, err
}

// Decide implements Ledger.
func (p *Postgres) Decide(ctx context.Context, dec Decision) (Record, error) {
	if err := dec.validate(); err != nil {
		return Record{}, err
	}
	r, changed, err := p.found(ctx, &p.sql.decide, dec.Digest, []any{
		dec.Fence, dec.State.String(), int32(dec.Status), dec.Response, dec.Force,
		plainText(dec.Who), plainText(dec.Why),
	})
	switch {
	case err != nil:
		return Record{}, err
	case changed && dec.State == Completed:
		r.Response = dec.Response
	case changed:
	case r.State == Unknown && r.Fence == dec.Fence:
		return Record{}, errTooEarly
	default:
		return Record{}, ErrRefused
	}
	return r, nil
}

// BeginRecovery implements Ledger.
func (p *Postgres) BeginRecovery(ctx context.Context, d Digest, fence int64, term time.Duration) (Record, error) {
	r, changed, err := p.found(ctx, &p.sql.beginRecovery, d, []any{fence, micros(term)})
	if err == nil && !changed {
		return Record{}, ErrRefused
	}
	return r, err
}

// Forget implements Ledger.
func (p *Postgres) Forget(ctx context.Context, d Digest, who, why string) (Record, error) {
	r, changed, err := p.found(ctx, &p.sql.forget, d, []any{plainText(who), plainText(why)})
	if err != nil || changed {
		return r, err
	}
	row, err := p.already(d, func(r *Record) bool { return r.State == Tombstone && r.Reason == Forgotten })
	if err != nil {
		return Record{}, err
	}
	return *row, nil
}

// found runs a statement of somebody who is not the owner, and returns the row
// as it is afterwards.
func (p *Postgres) found(ctx context.Context, s *statement, d Digest, args []any) (r Record, changed bool, err error) {
	leave, err := p.enterAlone(ctx)
	if err != nil {
		return Record{}, false, err
	}
	defer leave()
	hit, row, err := p.alone(step{statement: s, args: append([]any{d[:]}, args...)}, d, readRecord)
	switch {
	case err != nil:
		return Record{}, false, verdictOf(err)
	case hit != nil:
		if hit.State != Processing && hit.State != Streaming {
			hit.Grant = nil
		}
		return *hit, true, nil
	}
	return *row, false, nil
}
