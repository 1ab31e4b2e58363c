package fallback

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/redfence/redfence/internal/failpoint"
)

type claimTicket = ticket[ClaimRequest, Verdict]

// Claim implements Ledger.
func (p *Postgres) Claim(ctx context.Context, req ClaimRequest) (Verdict, error) {
	if err := req.Policy.Validate(); err != nil {
		return Verdict{}, err
	}
	req.Owner = plainText(req.Owner)
	t, err := p.claims.enter(ctx, req.Digest, req)
	if err != nil {
		return Verdict{}, err
	}
	<-t.done // queued: the caller's context no longer counts (R1)
	return t.answer, t.err
}

// runClaims answers a batch of claims. One that was sent and not confirmed is
// in doubt for every key of it.
func (p *Postgres) runClaims(batch []*claimTicket) {
	if err := p.noteLease(batch); err != nil {
		for _, t := range batch {
			t.settle(Verdict{}, verdictOf(err))
		}
		return
	}
	heal(p, batch, healer[ClaimRequest, Verdict]{
		try: p.claimOnce,
		fail: func(t *claimTicket, err error) {
			t.settle(Verdict{}, verdictOf(err))
		},
	})
}

// noteLease records in the ledger that leases as long as these are granted,
// before the first of them is.
func (p *Postgres) noteLease(batch []*claimTicket) error {
	var longest time.Duration
	for _, t := range batch {
		longest = max(longest, t.ask.Policy.Lease)
	}
	return p.noteLongest(longest)
}

func (p *Postgres) noteLongest(lease time.Duration) error {
	us := micros(lease)
	if us <= p.maxLease.Load() {
		return nil
	}
	ctx, cancel := p.bounded()
	defer cancel()
	err := p.with(ctx, func(c *pgx.Conn) error {
		_, _, err := p.transact(ctx, c, []step{{statement: &p.sql.noteLease, args: []any{us}}}, nil)
		return err
	})
	if err != nil {
		return err
	}
	for {
		known := p.maxLease.Load()
		if known >= us || p.maxLease.CompareAndSwap(known, us) {
			return nil
		}
	}
}

// claimOnce sends the claims of a batch and reads back those that are lost. It
// returns an error when no verdict is known, and settles each ticket
// otherwise. Rows that became claimable between the two statements are claimed
// again: the first send has definitely failed.
func (p *Postgres) claimOnce(batch []*claimTicket) error {
	for range maxTries {
		lost, err := p.claimRound(batch)
		if err != nil {
			return err
		}
		batch = lost
		if len(batch) == 0 {
			return nil
		}
		// A claim that found its key free and claimed nothing came after its
		// not-after (the ledger's clock has been stepped), or to another server
		// than the ledger's.
		if err := p.meetAgain(); err != nil {
			return err
		}
	}
	for _, t := range batch {
		t.settle(Verdict{}, fmt.Errorf("%w: the row changes while it is claimed", ErrBusy))
	}
	return nil
}

// claimRound sends the claims once. The read-back goes along when the last
// batch has lost claims, and follows the lost ones otherwise: on the primary
// route few are. It returns the tickets whose rows were free again when they
// were read back.
func (p *Postgres) claimRound(batch []*claimTicket) (again []*claimTicket, err error) {
	ctx, cancel := p.bounded()
	defer cancel()
	notAfter, send := p.notAfter(), newSend()
	granted := make(map[Digest]*Record, len(batch))
	var standing map[Digest]*Record
	var after *step
	if p.contended.Load() {
		standing = make(map[Digest]*Record)
		s := p.sql.readback.step(len(batch), []any{keys(batch), tokens(batch)}, gather(standing, readRecord))
		after = &s
	}
	claim := p.sql.claim.step(len(batch), claimArgs(batch, notAfter), gather(granted, readGrant))
	var t timing
	var committed bool
	err = p.with(ctx, func(c *pgx.Conn) (err error) {
		t, committed, err = p.transact(ctx, c, []step{p.guard(send), claim}, after)
		return err
	})
	if !committed && !(failpoint.Mutant("verdict-before-commit") && len(granted) > 0) {
		if howFar(err) == inDoubt {
			err = p.unconfirmed(digests(batch), doubt{send, notAfter}, err)
		}
		return nil, err
	}
	p.date(granted, t)
	lost := settleGranted(batch, granted, t)
	p.contended.Store(len(lost) > 0)
	if len(lost) == 0 {
		return nil, nil
	}
	if after == nil || err != nil {
		return p.readBackApart(lost, err), nil
	}
	p.date(standing, t)
	return slices.DeleteFunc(lost, func(ticket *claimTicket) bool {
		return settleLost(ticket, standing[ticket.digest])
	}), nil
}

// guard names the transaction of one send, for whoever must wait for its end.
func (p *Postgres) guard(send int64) step {
	return step{statement: &p.sql.guard, args: []any{send}}
}

// unconfirmed notes that a claim was sent and that no verdict came.
func (p *Postgres) unconfirmed(of [][]byte, d doubt, err error) error {
	p.doubts.add(of, d)
	return &UnconfirmedError{NotAfter: d.notAfter, Err: err}
}

// settleGranted answers the claims that were granted, and returns the others.
func settleGranted(batch []*claimTicket, granted map[Digest]*Record, t timing) (lost []*claimTicket) {
	for _, ticket := range batch {
		if r, ok := granted[ticket.digest]; ok && r.Token == ticket.ask.Token {
			g := r.grant(t.sent)
			ticket.settle(Verdict{Granted: &g}, nil)
			continue
		}
		lost = append(lost, ticket)
	}
	return lost
}

// settleLost answers a claim that was not granted by the row in its way, if
// there still is one.
func settleLost(ticket *claimTicket, r *Record) bool {
	if r == nil || r.State == Absent || r.Token == ticket.ask.Token || r.claimable(r.Now) {
		return false
	}
	ticket.settle(Verdict{Row: r}, nil)
	return true
}

// readBackApart reads the rows of claims that were not granted in a round trip
// of its own: no read-back went along with them, or it has failed. Where that
// does not help, nothing more is known.
func (p *Postgres) readBackApart(lost []*claimTicket, err error) (again []*claimTicket) {
	var rows map[Digest]*Record
	failed := make(map[Digest]error)
	if err == nil || curable(err) {
		rows, failed = p.readApart(digests(lost))
	} else {
		for _, t := range lost {
			failed[t.digest] = err
		}
	}
	for _, t := range lost {
		if err := failed[t.digest]; err != nil {
			t.settle(Verdict{}, verdictOf(err))
		} else if !settleLost(t, rows[t.digest]) {
			again = append(again, t)
		}
	}
	return again
}

// notAfter returns the moment on the ledger's clock after which a claim sent
// now must not take effect: the statement's time, by the latest that the
// ledger's clock can be now.
func (p *Postgres) notAfter() time.Time {
	now, margin, ok := p.clock.now()
	if !ok { // cannot be: admitting a connection takes a reading
		now, margin = time.Now(), time.Minute
	}
	return now.Add(margin + p.cfg.StatementTimeout)
}

func tokens(batch []*claimTicket) parameter {
	return blobs(batch, func(t *claimTicket) []byte { return t.ask.Token[:] })
}

func claimArgs(batch []*claimTicket, notAfter time.Time) []any {
	return []any{
		keys(batch),
		texts(batch, func(t *claimTicket) string { return t.ask.Key.Namespace }),
		opaque(batch, func(t *claimTicket) string { return t.ask.Key.Scope }),
		opaque(batch, func(t *claimTicket) string { return t.ask.Key.ID }),
		tokens(batch),
		texts(batch, func(t *claimTicket) string { return t.ask.Owner }),
		int2s(batch, func(t *claimTicket) int16 { return int16(t.ask.Fingerprint.Version) }),
		int2s(batch, func(t *claimTicket) int16 { return int16(t.ask.Fingerprint.Secret) }),
		blobs(batch, func(t *claimTicket) []byte { return notNull(t.ask.Fingerprint.Sum) }),
		texts(batch, func(t *claimTicket) string { return t.ask.Policy.Takeover.String() }),
		int8s(batch, func(t *claimTicket) int64 { return micros(t.ask.Policy.Lease) }),
		int8s(batch, func(t *claimTicket) int64 { return micros(t.ask.Policy.MaxProcessing) }),
		int4s(batch, func(t *claimTicket) int32 { return int32(t.ask.Policy.MaxAttempts) }),
		retentions(batch),
		texts(batch, func(t *claimTicket) string { return t.ask.Policy.AfterExpiry.String() }),
		timestamp(notAfter),
	}
}

func retentions(batch []*claimTicket) parameter {
	return parameterOf(batch, pgtype.Int8OID, func(buf []byte, t *claimTicket) []byte {
		if t.ask.Policy.Retention == Forever {
			return nil
		}
		return binary.BigEndian.AppendUint64(buf, uint64(micros(t.ask.Policy.Retention)))
	})
}

// notNull returns an empty value for a nil one: nil would be NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// TakeOver implements Ledger: a statement of its own (R1).
func (p *Postgres) TakeOver(ctx context.Context, req ClaimRequest, fence int64) (Verdict, error) {
	if err := req.Policy.Validate(); err != nil {
		return Verdict{}, err
	}
	leave, err := p.enterAlone(ctx)
	if err != nil {
		return Verdict{}, err
	}
	defer leave()
	if err := p.noteLongest(req.Policy.Lease); err != nil {
		return Verdict{}, verdictOf(err)
	}
	notAfter, send := p.notAfter(), newSend()
	act := step{statement: &p.sql.takeover, args: takeOverArgs(req, fence, notAfter)}
	hit, row, err := p.alone(act, req.Digest, readGrant, p.guard(send))
	switch {
	case err != nil && howFar(err) == inDoubt:
		return Verdict{}, p.unconfirmed([][]byte{req.Digest[:]}, doubt{send, notAfter}, err)
	case err != nil:
		return Verdict{}, verdictOf(err)
	case hit != nil:
		return Verdict{Granted: hit.Grant}, nil
	case p.unnamed && row.Fence == fence && row.takeable(row.Now, req.Fingerprint):
		err = p.meetAgain() // it should have been granted
	}
	return Verdict{Row: row}, verdictOf(err)
}

func takeOverArgs(req ClaimRequest, fence int64, notAfter time.Time) []any {
	return []any{
		req.Digest[:], fence, req.Token[:], plainText(req.Owner),
		int16(req.Fingerprint.Version), int16(req.Fingerprint.Secret), notNull(req.Fingerprint.Sum),
		req.Policy.Takeover.String(), micros(req.Policy.Lease), micros(req.Policy.MaxProcessing),
		int32(req.Policy.MaxAttempts), retentionMicros(req.Policy.Retention), req.Policy.AfterExpiry.String(),
		timestamp(notAfter),
	}
}
