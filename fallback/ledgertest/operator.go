package ledgertest

import (
	"errors"
	"sync"
	"time"

	"github.com/redfence/redfence/fallback"
)

var operatorTests = []test{
	{"I39: a decision draws a new fence, and the old owner is refused", decideCompleted},
	{"a decision to release waits for max_processing, or is forced", decideReleased},
	{"a decision needs an unknown row under its fence", decideConditions},
	{"a recovery hook has the row to itself for a term", recovery},
	{"of many recovery hooks at once one begins", manyRecoveries},
	{"I53: forgetting empties the body and keeps the end of the retention", forget},
	{"only terminal rows are forgotten", forgetConditions},
}

// unknown returns a row that its owner has abandoned.
func (s *suite) unknown(p fallback.Policy) (fallback.ClaimRequest, fallback.Ref) {
	s.Helper()
	r, mine := s.held(p)
	s.ok(s.ledger.Abandon(s.ctx, mine, "panic"))
	return r, mine
}

func decision(r fallback.Ref, to fallback.State) fallback.Decision {
	return fallback.Decision{
		Digest: r.Digest, Fence: r.Fence, State: to, Status: 202, Response: []byte("decided"),
		Who: "ops", Why: "the charge is in the books",
	}
}

func decideCompleted(s *suite) {
	r, old := s.unknown(hold())
	rec, err := s.ledger.Decide(s.ctx, decision(old, fallback.Completed))
	s.ok(err)
	row := s.state(r.Digest, fallback.Completed)
	for _, got := range []fallback.Record{rec, row} {
		if got.Fence <= old.Fence || string(got.Response) != "decided" || got.Status != 202 ||
			got.ExpiresAt.IsZero() || got.CompletedAt.IsZero() {
			s.Fatalf("decided: %+v", got)
		}
	}
	_, err = s.ledger.Complete(s.ctx, done(old, "the owner's"))
	s.refused(err)
	s.refused(s.ledger.Release(s.ctx, old, "the owner's"))
	if row := s.state(r.Digest, fallback.Completed); string(row.Response) != "decided" {
		s.Fatalf("the owner replaced the decision by %q", row.Response)
	}
}

func decideReleased(s *suite) {
	r, old := s.unknown(hold())
	_, err := s.ledger.Decide(s.ctx, decision(old, fallback.Released))
	s.refused(err)
	s.state(r.Digest, fallback.Unknown)
	forced := decision(old, fallback.Released)
	forced.Force = true
	rec, err := s.ledger.Decide(s.ctx, forced)
	s.ok(err)
	if rec.State != fallback.Released || rec.Fence <= old.Fence || len(rec.Response) > 0 || rec.Status != 0 {
		s.Fatalf("released as %+v", rec)
	}
	if g := s.claim(again(r)); g.Fence <= rec.Fence {
		s.Fatalf("fence %d after %d", g.Fence, rec.Fence)
	}
	r, old = s.unknown(lapsing(hold()))
	s.awaitOver(r.Digest)
	_, err = s.ledger.Decide(s.ctx, decision(old, fallback.Released))
	s.ok(err)
}

func decideConditions(s *suite) {
	_, old := s.unknown(hold())
	stale := old
	stale.Fence--
	_, err := s.ledger.Decide(s.ctx, decision(stale, fallback.Completed))
	s.refused(err)
	_, mine := s.held(hold())
	_, err = s.ledger.Decide(s.ctx, decision(mine, fallback.Completed))
	s.refused(err)
	_, err = s.ledger.Decide(s.ctx, decision(old, fallback.Processing))
	if err == nil || errors.Is(err, fallback.ErrRefused) {
		s.Fatalf("a decision to process: %v", err)
	}
	if _, err := s.ledger.Decide(s.ctx, decision(old, fallback.Completed)); err != nil {
		s.Fatal(err)
	}
	_, err = s.ledger.Decide(s.ctx, decision(old, fallback.Completed))
	s.refused(err)
}

func recovery(s *suite) {
	r, old := s.unknown(hold())
	_, err := s.ledger.BeginRecovery(s.ctx, r.Digest, old.Fence, time.Hour)
	s.refused(err) // the handler may still run

	r, old = s.unknown(lapsing(hold()))
	s.awaitOver(r.Digest)
	_, err = s.ledger.BeginRecovery(s.ctx, r.Digest, old.Fence+1, time.Hour)
	s.refused(err)
	rec, err := s.ledger.BeginRecovery(s.ctx, r.Digest, old.Fence, short)
	s.ok(err)
	if rec.State != fallback.Unknown || rec.Fence != old.Fence || rec.RecoverUntil.IsZero() {
		s.Fatalf("recovering: %+v", rec)
	}
	s.await(r.Digest, "past the term", func(r fallback.Record) bool { return r.Now.After(r.RecoverUntil) })
	_, err = s.ledger.BeginRecovery(s.ctx, r.Digest, old.Fence, time.Hour)
	s.ok(err)
	_, err = s.ledger.BeginRecovery(s.ctx, r.Digest, old.Fence, time.Hour)
	s.refused(err)
	_, err = s.ledger.Complete(s.ctx, done(old, "the owner was first")) // R17
	s.ok(err)
	_, err = s.ledger.Decide(s.ctx, decision(old, fallback.Completed))
	s.refused(err)
}

func manyRecoveries(s *suite) {
	r, old := s.unknown(lapsing(hold()))
	s.awaitOver(r.Digest)
	var mu sync.Mutex
	begun := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := s.ledger.BeginRecovery(s.ctx, r.Digest, old.Fence, time.Hour)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				begun++
			} else if !errors.Is(err, fallback.ErrRefused) {
				s.Errorf("BeginRecovery: %v", err)
			}
		})
	}
	wg.Wait()
	if begun != 1 {
		s.Fatalf("begun %d times", begun)
	}
}

func forget(s *suite) {
	r, mine := s.held(hold())
	before, err := s.ledger.Complete(s.ctx, done(mine, "secret"))
	s.ok(err)
	var first fallback.Record
	for i := range 2 {
		rec, err := s.ledger.Forget(s.ctx, r.Digest, "ops", "asked to")
		s.ok(err)
		if rec.State != fallback.Tombstone || rec.Reason != fallback.Forgotten || rec.Fence <= mine.Fence ||
			len(rec.Response) > 0 || rec.Status != 0 || !rec.ExpiresAt.Equal(before.ExpiresAt) {
			s.Fatalf("forgotten as %+v", rec)
		}
		if i == 0 {
			first = rec
		} else if rec.Fence != first.Fence {
			s.Fatal("forgetting twice drew another fence")
		}
	}
	if row := s.denied(again(r)); row.State != fallback.Tombstone || len(row.Response) > 0 {
		s.Fatalf("the row in the way: %+v", row)
	}
	_, err = s.ledger.Complete(s.ctx, done(mine, "secret"))
	s.refused(err)
	_, err = s.ledger.Bury(s.ctx, fallback.Burial{Ref: mine})
	s.refused(err)
}

func forgetConditions(s *suite) {
	r, mine := s.held(hold())
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return s.ledger.Abandon(s.ctx, mine, "panic") },
		func() error { _, err := s.ledger.Stream(s.ctx, mine); return err },
	} {
		s.ok(step())
		_, err := s.ledger.Forget(s.ctx, r.Digest, "ops", "too early")
		s.refused(err)
	}
	_, err := s.ledger.Forget(s.ctx, request(hold()).Digest, "ops", "absent")
	s.refused(err)
	_, err = s.ledger.Bury(s.ctx, fallback.Burial{Ref: mine, Status: 200, Size: 7})
	s.ok(err)
	rec, err := s.ledger.Forget(s.ctx, r.Digest, "ops", "now")
	s.ok(err)
	if rec.Size != 0 || rec.Reason != fallback.Forgotten {
		s.Fatalf("forgotten as %+v", rec)
	}
}
