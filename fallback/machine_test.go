package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// pair drives the memory ledger and the Postgres ledger with the same calls.
// Time stands still, as all durations are hours; it moves by ageing rows.
type pair struct {
	ctx    context.Context
	memory *fallback.Memory
	server *fallback.Postgres
	pool   *pgxpool.Pool
	fences map[int64]int64 // of memory to of Postgres
	keys   []fallback.Key
	refs   []fallback.Ref // claims that were granted, with memory's fence
}

// TestMachine: random calls on a few keys have the same effects and answers on
// both ledgers, and fences grow with each claim and each decision on a key.
func TestMachine(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	server := openLedger(t, pool)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		p := &pair{
			ctx: t.Context(), memory: fallback.NewMemory().Keep(), server: server, pool: pool,
			fences: map[int64]int64{},
		}
		for i := range 2 {
			p.keys = append(p.keys, fallback.Key{Namespace: "do", Scope: fmt.Sprint(run), ID: fmt.Sprint(i)})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":         p.compare,
			"claim":    p.claim,
			"takeOver": p.takeOver,
			"owner":    p.owner,
			"lapse":    p.lapse,
			"decide":   p.decide,
			"recover":  p.recover,
			"forget":   p.forget,
			"age":      p.age,
		})
	})
}

func (p *pair) key(t *rapid.T) fallback.Key { return rapid.SampledFrom(p.keys).Draw(t, "key") }

func (p *pair) request(t *rapid.T) fallback.ClaimRequest {
	k := p.key(t)
	return fallback.ClaimRequest{
		Key: k, Digest: k.Digest(), Token: fallback.NewToken(),
		Owner:       rapid.SampledFrom([]string{"a", "b\x00"}).Draw(t, "owner"),
		Fingerprint: fallback.Fingerprint{Version: 1, Sum: []byte(rapid.SampledFrom([]string{"", "x"}).Draw(t, "sum"))},
		Policy: fallback.Policy{
			Takeover:      rapid.SampledFrom([]fallback.Takeover{fallback.Hold, fallback.Retry, fallback.Retry}).Draw(t, "takeover"),
			Lease:         time.Hour,
			MaxProcessing: rapid.SampledFrom([]time.Duration{time.Hour, 3 * time.Hour}).Draw(t, "max"),
			MaxAttempts:   rapid.IntRange(1, 3).Draw(t, "attempts"),
			Retention:     rapid.SampledFrom([]time.Duration{time.Hour, 9 * time.Hour, fallback.Forever}).Draw(t, "retention"),
			AfterExpiry:   rapid.SampledFrom([]fallback.AfterExpiry{fallback.RunAgain, fallback.RunAgain, fallback.NeverAgain}).Draw(t, "after"),
		},
	}
}

// fence returns Postgres's fence for memory's, or one that no row has.
func (p *pair) fence(of int64) int64 {
	if f, ok := p.fences[of]; ok {
		return f
	}
	return -of - 1
}

// meet notes that two fences are the same one.
func (p *pair) meet(t *rapid.T, memory, server int64) {
	if known, ok := p.fences[memory]; ok && known != server {
		t.Fatalf("fence %d is %d and %d", memory, known, server)
	}
	for m, s := range p.fences {
		if (m < memory) != (s < server) && m != memory {
			t.Fatalf("fences %d, %d are in another order than %d, %d", m, memory, s, server)
		}
	}
	p.fences[memory] = server
}

// agree fails unless both calls ended the same way.
func agree(t *rapid.T, memory, server error) bool {
	for _, sentinel := range []error{fallback.ErrRefused, fallback.ErrUnavailable, fallback.ErrUnconfirmed, fallback.ErrBusy} {
		if errors.Is(memory, sentinel) != errors.Is(server, sentinel) {
			t.Fatalf("memory: %v, Postgres: %v", memory, server)
		}
	}
	if (memory == nil) != (server == nil) {
		t.Fatalf("memory: %v, Postgres: %v", memory, server)
	}
	return memory == nil
}

// verdicts compares two verdicts on one claim.
func (p *pair) verdicts(t *rapid.T, req fallback.ClaimRequest, m, s fallback.Verdict) {
	if (m.Granted == nil) != (s.Granted == nil) || (m.Row == nil) != (s.Row == nil) {
		t.Fatalf("memory: %+v, Postgres: %+v", m, s)
	}
	if m.Granted == nil {
		p.rows(t, *m.Row, *s.Row)
		return
	}
	if m.Granted.Attempt != s.Granted.Attempt || m.Granted.Deadline.Sub(s.Granted.Deadline).Abs() > time.Minute ||
		m.Granted.Cap.Sub(s.Granted.Cap).Abs() > time.Minute {
		t.Fatalf("memory: %+v, Postgres: %+v", m.Granted, s.Granted)
	}
	if _, old := p.fences[m.Granted.Fence]; old {
		t.Fatalf("fence %d was granted before", m.Granted.Fence)
	}
	p.meet(t, m.Granted.Fence, s.Granted.Fence)
	p.refs = append(p.refs, fallback.Ref{Digest: req.Digest, Token: req.Token, Fence: m.Granted.Fence})
}

// rows compares two rows.
func (p *pair) rows(t *rapid.T, m, s fallback.Record) {
	if m.Fence != 0 {
		p.meet(t, m.Fence, s.Fence)
	}
	if m.Lapsed() != s.Lapsed() || m.Expired() != s.Expired() {
		t.Fatalf("lapsed %v %v, expired %v %v", m.Lapsed(), s.Lapsed(), m.Expired(), s.Expired())
	}
	since := func(r fallback.Record, at time.Time) time.Duration {
		if at.IsZero() {
			return 0
		}
		return r.Now.Sub(at)
	}
	for name, of := range map[string]func(fallback.Record) time.Time{
		"claimed_at":    func(r fallback.Record) time.Time { return r.ClaimedAt },
		"lease_until":   func(r fallback.Record) time.Time { return r.LeaseUntil },
		"completed_at":  func(r fallback.Record) time.Time { return r.CompletedAt },
		"released_at":   func(r fallback.Record) time.Time { return r.ReleasedAt },
		"expires_at":    func(r fallback.Record) time.Time { return r.ExpiresAt },
		"recover_until": func(r fallback.Record) time.Time { return r.RecoverUntil },
	} {
		if of(m).IsZero() != of(s).IsZero() || (since(m, of(m))-since(s, of(s))).Abs() > time.Minute {
			t.Fatalf("%s: %v and %v", name, of(m), of(s))
		}
	}
	ignore := cmpopts.IgnoreFields(fallback.Record{}, "Fence", "ClaimedAt", "LeaseUntil", "CompletedAt",
		"ReleasedAt", "ExpiresAt", "RecoverUntil", "Now", "Grant")
	if diff := cmp.Diff(m, s, ignore, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("the row (-memory +Postgres):\n%s", diff)
	}
	if (m.Grant == nil) != (s.Grant == nil) {
		t.Fatalf("grants %+v and %+v", m.Grant, s.Grant)
	}
}

// compare reads every row from both.
func (p *pair) compare(t *rapid.T) {
	for _, k := range p.keys {
		m, err := p.memory.Read(p.ctx, k.Digest())
		if err != nil {
			t.Fatal(err)
		}
		s, err := p.server.Read(p.ctx, k.Digest())
		if err != nil {
			t.Fatal(err)
		}
		p.rows(t, m, s)
	}
}

func (p *pair) claim(t *rapid.T) {
	req := p.request(t)
	m, errM := p.memory.Claim(p.ctx, req)
	s, errS := p.server.Claim(p.ctx, req)
	if agree(t, errM, errS) {
		p.verdicts(t, req, m, s)
	}
}

func (p *pair) takeOver(t *rapid.T) {
	req := p.request(t)
	fence := p.anyFence(t, req.Digest)
	m, errM := p.memory.TakeOver(p.ctx, req, fence)
	s, errS := p.server.TakeOver(p.ctx, req, p.fence(fence))
	if agree(t, errM, errS) {
		p.verdicts(t, req, m, s)
	}
}

// anyFence returns the row's own fence, or sometimes another.
func (p *pair) anyFence(t *rapid.T, d fallback.Digest) int64 {
	row, err := p.memory.Read(p.ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	return row.Fence + rapid.SampledFrom([]int64{0, 0, 0, 0, -1}).Draw(t, "stale")
}

// owner plays one of the owner's steps, also for claims that were lost.
func (p *pair) owner(t *rapid.T) {
	if len(p.refs) == 0 {
		t.Skip("no claim")
	}
	mine := rapid.SampledFrom(p.refs[max(0, len(p.refs)-4):]).Draw(t, "claim")
	theirs := mine
	theirs.Fence = p.fence(mine.Fence)
	text := rapid.SampledFrom([]string{"", "r\x00"}).Draw(t, "reason")
	switch rapid.IntRange(0, 6).Draw(t, "step") {
	case 0:
		late := rapid.Bool().Draw(t, "late")
		m, errM := p.memory.Renew(p.ctx, mine, late)
		s, errS := p.server.Renew(p.ctx, theirs, late)
		if agree(t, errM, errS) && m.Deadline.Sub(s.Deadline).Abs() > time.Minute {
			t.Fatalf("deadlines %v and %v", m.Deadline, s.Deadline)
		}
	case 1:
		body := []byte(rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "body"))
		m, errM := p.memory.Complete(p.ctx, fallback.Completion{Ref: mine, Status: 200, Response: body, Reason: text})
		s, errS := p.server.Complete(p.ctx, fallback.Completion{Ref: theirs, Status: 200, Response: body, Reason: text})
		if agree(t, errM, errS) {
			p.rows(t, m, s)
		}
	case 2:
		agree(t, p.memory.Release(p.ctx, mine, text), p.server.Release(p.ctx, theirs, text))
	case 3:
		agree(t, p.memory.Abandon(p.ctx, mine, text), p.server.Abandon(p.ctx, theirs, text))
	case 4:
		_, errM := p.memory.Stream(p.ctx, mine)
		_, errS := p.server.Stream(p.ctx, theirs)
		agree(t, errM, errS)
	case 5:
		m, errM := p.memory.Bury(p.ctx, fallback.Burial{Ref: mine, Status: 200, Size: 5, Reason: text})
		s, errS := p.server.Bury(p.ctx, fallback.Burial{Ref: theirs, Status: 200, Size: 5, Reason: text})
		if agree(t, errM, errS) {
			p.rows(t, m, s)
		}
	case 6:
		agree(t, p.memory.GiveBack(p.ctx, mine, text), p.server.GiveBack(p.ctx, theirs, text))
	}
}

func (p *pair) lapse(t *rapid.T) {
	d := p.key(t).Digest()
	fence := p.anyFence(t, d)
	m, errM := p.memory.Lapse(p.ctx, d, fence)
	s, errS := p.server.Lapse(p.ctx, d, p.fence(fence))
	if agree(t, errM, errS) {
		p.rows(t, m, s)
	}
}

func (p *pair) decide(t *rapid.T) {
	d := p.key(t).Digest()
	dec := fallback.Decision{
		Digest: d, Fence: p.anyFence(t, d), Status: 202, Response: []byte("decided"),
		State: rapid.SampledFrom([]fallback.State{fallback.Completed, fallback.Released}).Draw(t, "to"),
		Force: rapid.Bool().Draw(t, "force"), Who: "ops\x00", Why: "because",
	}
	m, errM := p.memory.Decide(p.ctx, dec)
	dec.Fence = p.fence(dec.Fence)
	s, errS := p.server.Decide(p.ctx, dec)
	if agree(t, errM, errS) {
		p.rows(t, m, s)
	}
}

func (p *pair) recover(t *rapid.T) {
	d := p.key(t).Digest()
	fence := p.anyFence(t, d)
	m, errM := p.memory.BeginRecovery(p.ctx, d, fence, time.Hour)
	s, errS := p.server.BeginRecovery(p.ctx, d, p.fence(fence), time.Hour)
	if agree(t, errM, errS) {
		p.rows(t, m, s)
	}
}

func (p *pair) forget(t *rapid.T) {
	d := p.key(t).Digest()
	m, errM := p.memory.Forget(p.ctx, d, "ops", "asked")
	s, errS := p.server.Forget(p.ctx, d, "ops", "asked")
	if agree(t, errM, errS) {
		p.rows(t, m, s)
	}
	audited := func(l fallback.Lister) (actions []string) {
		all, err := l.Audits(p.ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			actions = append(actions, a.Action+" "+a.Who+" "+a.Why)
		}
		return actions
	}
	if diff := cmp.Diff(audited(p.memory), audited(p.server)); diff != "" {
		t.Fatalf("the audit trail (-memory +Postgres):\n%s", diff)
	}
}

// age moves one row by half a lease or a few, so that leases lapse, processing
// times end and retentions pass.
func (p *pair) age(t *rapid.T) {
	d := p.key(t).Digest()
	by := rapid.SampledFrom([]time.Duration{30 * time.Minute, 2 * time.Hour, 5 * time.Hour}).Draw(t, "by")
	p.memory.Age(d, by)
	var set string
	for _, column := range []string{"claimed_at", "lease_until", "recover_until", "completed_at", "released_at", "expires_at"} {
		set += fmt.Sprintf(", %[1]s = %[1]s - $2::int8 * interval '1 microsecond'", column)
	}
	if _, err := p.pool.Exec(p.ctx, "UPDATE idempotency_keys SET "+set[2:]+" WHERE digest = $1", d[:], by.Microseconds()); err != nil {
		t.Fatal(err)
	}
}
