package fallback

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// Reasons that the ledger writes itself.
const (
	reasonLapsed   = "lease lapsed"
	reasonCutShort = "stream cut short"
)

// Decide implements Ledger.
func (m *Memory) Decide(ctx context.Context, dec Decision) (Record, error) {
	if err := dec.validate(); err != nil {
		return Record{}, err
	}
	return locked(ctx, m, func(now time.Time) (Record, error) {
		row := m.row(dec.Digest)
		if row.Fence != dec.Fence || row.State != Unknown || !row.known() {
			return Record{}, ErrRefused
		}
		if dec.State == Released && !dec.Force && now.Before(row.Policy.over(row.ClaimedAt)) {
			return Record{}, errTooEarly
		}
		m.audit(row, "decide "+dec.State.String(), dec.Who, dec.Why, now)
		row.Fence = m.draw()
		if dec.State == Released {
			row.State, row.Reason, row.ReleasedAt, row.Attempts = Released, plainText(dec.Why), now, 0
			return *copyOf(row, now), nil
		}
		row.finish(Completed, now, dec.Why)
		row.Status, row.Response = dec.Status, bytes.Clone(dec.Response)
		return *copyOf(row, now), nil
	})
}

// BeginRecovery implements Ledger.
func (m *Memory) BeginRecovery(ctx context.Context, d Digest, fence int64, term time.Duration) (Record, error) {
	return locked(ctx, m, func(now time.Time) (Record, error) {
		row := m.row(d)
		switch {
		case row.Fence != fence, row.State != Unknown, !row.known(),
			now.Before(row.Policy.over(row.ClaimedAt)), now.Before(row.RecoverUntil):
			return Record{}, ErrRefused
		}
		row.RecoverUntil = now.Add(term)
		return *copyOf(row, now), nil
	})
}

// Forget implements Ledger.
func (m *Memory) Forget(ctx context.Context, d Digest, who, why string) (Record, error) {
	return locked(ctx, m, func(now time.Time) (Record, error) {
		row := m.row(d)
		if !row.terminal() || !row.known() {
			return Record{}, ErrRefused
		}
		if row.State == Tombstone && row.Reason == Forgotten {
			return *copyOf(row, now), nil
		}
		m.audit(row, "forget", who, why, now)
		row.State, row.Reason, row.Fence = Tombstone, Forgotten, m.draw()
		row.Response, row.Status, row.Size = nil, 0, 0
		return *copyOf(row, now), nil
	})
}

// Audit is one decision of an operator or a hook, as recorded.
type Audit struct {
	At     time.Time
	Digest Digest
	Fence  int64 // of the row before the decision
	Action string
	Who    string
	Why    string
}

// maxAudits bounds what the memory ledger keeps of its audit trail.
const maxAudits = 1000

func (m *Memory) audit(row *Record, action, who, why string, now time.Time) {
	if len(m.audits) == maxAudits {
		m.audits = m.audits[1:]
	}
	m.audits = append(m.audits, Audit{
		At: now, Digest: row.Digest, Fence: row.Fence, Action: action,
		Who: plainText(who), Why: plainText(why),
	})
}

// sweepGrace is how long a row that is expired or released stays. It is far
// longer than any claim statement can live: one that drew its fence before
// the row was deleted must not insert it afterwards.
const sweepGrace = 10 * time.Minute

// sweepSome looks at a few rows and deletes those that nobody needs: each
// claim pays for more than the one row that it may add.
func (m *Memory) sweepSome(now time.Time) {
	if m.keep {
		return
	}
	looked := 0
	for d, row := range m.rows {
		if row.sweepable(now) {
			delete(m.rows, d)
		}
		if looked++; looked == 4 {
			return
		}
	}
}

// sweepable rows have been claimable for longer than sweepGrace. Those of an
// unknown state or version, and those that never run again, are kept.
func (r *Record) sweepable(now time.Time) bool {
	if !r.claimable(now) {
		return false
	}
	since := r.ExpiresAt
	if r.State == Released {
		since = r.ReleasedAt
	}
	return now.Sub(since) > sweepGrace
}

// errTooEarly is the refusal of a release that would come while the handler
// may still run.
var errTooEarly = fmt.Errorf("%w yet: released only after claimed_at + max_processing + %v, or by force", ErrRefused, Margin)

// validate reports what makes a decision meaningless.
func (d Decision) validate() error {
	if d.State != Completed && d.State != Released {
		return fmt.Errorf("fallback: a decision is completed or released, not %v", d.State)
	}
	return nil
}
