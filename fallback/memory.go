package fallback

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// Memory is the ledger in one process: for tests, and for programs that want
// the engine's semantics without a database. Nothing in it is durable, and
// nothing is shared with another process. It reads time.Now, so that
// testing/synctest drives it.
type Memory struct {
	hub

	mu     sync.Mutex // guards all below
	rows   map[Digest]*Record
	seq    int64 // the fence drawn last
	audits []Audit
	nodes  NodeSet
	keep   bool // tests: sweep nothing
	closed bool
}

var _ Ledger = (*Memory)(nil)

// NewMemory returns an empty ledger.
func NewMemory() *Memory { return &Memory{rows: make(map[Digest]*Record)} }

// Claim implements Ledger.
func (m *Memory) Claim(ctx context.Context, req ClaimRequest) (Verdict, error) {
	if err := req.Policy.Validate(); err != nil {
		return Verdict{}, err
	}
	return locked(ctx, m, func(now time.Time) (Verdict, error) {
		m.sweepSome(now)
		row, ok := m.rows[req.Digest]
		if ok && !row.claimable(now) {
			return Verdict{Row: copyOf(row, now)}, nil
		}
		attempt := 1
		if ok && row.State == Released { // claims that were given back do not count, the starts before them do
			attempt += row.Attempts
		}
		return m.grant(req, attempt, now), nil
	})
}

// TakeOver implements Ledger.
func (m *Memory) TakeOver(ctx context.Context, req ClaimRequest, fence int64) (Verdict, error) {
	if err := req.Policy.Validate(); err != nil {
		return Verdict{}, err
	}
	return locked(ctx, m, func(now time.Time) (Verdict, error) {
		row := m.row(req.Digest)
		if row.Fence != fence || !row.takeable(now, req.Fingerprint) {
			return Verdict{Row: copyOf(row, now)}, nil
		}
		return m.grant(req, row.Attempts+1, now), nil
	})
}

// grant writes the row of a new claim.
func (m *Memory) grant(req ClaimRequest, attempt int, now time.Time) Verdict {
	row := &Record{
		Key: req.Key, Digest: req.Digest, State: Processing,
		Fence: m.draw(), Token: req.Token, Owner: plainText(req.Owner),
		Fingerprint: req.Fingerprint, Policy: req.Policy, Attempts: attempt,
		ClaimedAt: now, LeaseUntil: now.Add(req.Policy.Lease),
		Version: RecordVersion, Now: now,
	}
	row.Fingerprint.Sum = bytes.Clone(req.Fingerprint.Sum)
	m.rows[req.Digest] = row
	g := row.grant(now)
	return Verdict{Granted: &g}
}

// Read implements Ledger.
func (m *Memory) Read(ctx context.Context, d Digest) (Record, error) {
	return locked(ctx, m, func(now time.Time) (Record, error) {
		return *copyOf(m.row(d), now), nil
	})
}

// Confirm implements Ledger. Nothing here is in doubt.
func (m *Memory) Confirm(ctx context.Context, d Digest) (Record, error) { return m.Read(ctx, d) }

// Renew implements Ledger.
func (m *Memory) Renew(ctx context.Context, ref Ref, late bool) (Grant, error) {
	return locked(ctx, m, func(now time.Time) (Grant, error) {
		row := m.row(ref.Digest)
		if !row.is(ref) || !row.renewable(now, late) {
			return Grant{}, ErrRefused
		}
		row.LeaseUntil, row.Now = row.renewed(now, late || row.State == Streaming), now
		return row.grant(now), nil
	})
}

// Complete implements Ledger.
func (m *Memory) Complete(ctx context.Context, c Completion) (Record, error) {
	return locked(ctx, m, func(now time.Time) (Record, error) {
		row := m.row(c.Digest)
		switch {
		case !row.is(c.Ref):
			return Record{}, ErrRefused
		case row.State == Completed:
		case row.open():
			row.finish(Completed, now, c.Reason)
			row.Status, row.Response = c.Status, bytes.Clone(c.Response)
		default:
			return Record{}, ErrRefused
		}
		return *copyOf(row, now), nil
	})
}

// Release implements Ledger.
func (m *Memory) Release(ctx context.Context, ref Ref, reason string) error {
	return m.move(ctx, ref, Released, reason, func(r *Record, now time.Time) { r.ReleasedAt, r.Attempts = now, 0 })
}

// GiveBack implements Ledger.
func (m *Memory) GiveBack(ctx context.Context, ref Ref, reason string) error {
	return m.move(ctx, ref, Released, reason, func(r *Record, now time.Time) { r.ReleasedAt = now; r.Attempts-- })
}

// Abandon implements Ledger.
func (m *Memory) Abandon(ctx context.Context, ref Ref, reason string) error {
	return m.move(ctx, ref, Unknown, reason, func(*Record, time.Time) {})
}

// move is the owner's way from an open row to a state without a response. A
// row that is there already stays as it is. also makes the further changes.
func (m *Memory) move(ctx context.Context, ref Ref, to State, reason string, also func(*Record, time.Time)) error {
	_, err := locked(ctx, m, func(now time.Time) (struct{}, error) {
		row := m.row(ref.Digest)
		switch {
		case !row.is(ref) || row.State != to && !row.open():
			return struct{}{}, ErrRefused
		case row.State == to:
			return struct{}{}, nil
		}
		row.State, row.Reason = to, plainText(reason)
		also(row, now)
		return struct{}{}, nil
	})
	return err
}

// Lapse implements Ledger.
func (m *Memory) Lapse(ctx context.Context, d Digest, fence int64) (Record, error) {
	return locked(ctx, m, func(now time.Time) (Record, error) {
		row := m.row(d)
		switch {
		case row.Fence != fence:
		case row.deadEnd(now):
			row.State, row.Reason = Unknown, reasonLapsed
		case row.known() && row.State == Streaming && lapsed(row, now):
			row.finish(Tombstone, now, reasonCutShort)
		}
		return *copyOf(row, now), nil
	})
}

// Stream implements Ledger.
func (m *Memory) Stream(ctx context.Context, ref Ref) (Grant, error) {
	return locked(ctx, m, func(now time.Time) (Grant, error) {
		row := m.row(ref.Digest)
		if !row.is(ref) || !row.open() && row.State != Streaming {
			return Grant{}, ErrRefused
		}
		row.LeaseUntil, row.Now = row.renewed(now, true), now
		row.State = Streaming
		return row.grant(now), nil
	})
}

// Bury implements Ledger.
func (m *Memory) Bury(ctx context.Context, b Burial) (Record, error) {
	return locked(ctx, m, func(now time.Time) (Record, error) {
		row := m.row(b.Digest)
		switch {
		case !row.is(b.Ref):
			return Record{}, ErrRefused
		case row.State == Tombstone:
		case row.open(), row.State == Streaming:
			row.finish(Tombstone, now, b.Reason)
			row.Status, row.Size = b.Status, b.Size
		default:
			return Record{}, ErrRefused
		}
		return *copyOf(row, now), nil
	})
}

// Clock implements Ledger. The estimate is exact.
func (m *Memory) Clock() (time.Time, time.Duration, bool) { return time.Now(), 0, true }

// Close implements Ledger. Every later call fails with ErrClosed.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// locked runs one statement. A context that is done before it runs counts;
// after that nothing blocks.
func locked[T any](ctx context.Context, m *Memory, act func(now time.Time) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return none, ErrClosed
	}
	return act(time.Now())
}

// row returns the row, or an absent one that is not in the map.
func (m *Memory) row(d Digest) *Record {
	if row, ok := m.rows[d]; ok {
		return row
	}
	return &Record{Digest: d}
}

func (m *Memory) draw() int64 {
	m.seq++
	return m.seq
}

// finish makes the row terminal.
func (r *Record) finish(state State, now time.Time, reason string) {
	r.State, r.Reason = state, plainText(reason)
	r.CompletedAt, r.ExpiresAt = now, r.Policy.expiry(now, r.ClaimedAt)
	r.Response = nil
}

// copyOf returns the row as a caller may keep it.
func copyOf(row *Record, now time.Time) *Record {
	c := *row
	c.Now, c.Grant = now, nil
	if c.State == Processing || c.State == Streaming {
		g := c.grant(now)
		c.Grant = &g
	}
	return &c
}
