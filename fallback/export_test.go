package fallback

import "time"

// Age moves everything that a row knows of time into the past, as a test does
// on Postgres with an UPDATE.
func (m *Memory) Age(d Digest, by time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	row, ok := m.rows[d]
	if !ok {
		return
	}
	for _, t := range []*time.Time{
		&row.ClaimedAt, &row.LeaseUntil, &row.RecoverUntil, &row.CompletedAt, &row.ReleasedAt, &row.ExpiresAt,
	} {
		if !t.IsZero() {
			*t = t.Add(-by)
		}
	}
}

// Keep makes the ledger keep rows that nobody needs any more.
func (m *Memory) Keep() *Memory {
	m.keep = true
	return m
}

// InBatches makes the ledger send the statement of a batch for a single row too.
func (p *Postgres) InBatches() *Postgres {
	for _, s := range []*batched{&p.sql.claim, &p.sql.readback, &p.sql.read, &p.sql.renew, &p.sql.complete, &p.sql.release} {
		s.one = s.many
	}
	return p
}

// MisjudgeClock moves the estimate of the ledger's clock, as a step of that
// clock does.
func (p *Postgres) MisjudgeClock(by time.Duration) {
	last := *p.clock.last.Load()
	last.ledger = last.ledger.Add(by)
	p.clock.last.Store(&last)
}
