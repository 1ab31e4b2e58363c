package ledgertest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redfence/redfence/fallback"
)

var claimTests = []test{
	{"a fresh key is granted and the row says by whom", freshClaim},
	{"a held key is not granted again", heldClaim},
	{"of many claims at once one is granted", manyClaims},
	{"I40: an instance that comes back under its name does not own its old claim", sameOwner},
	{"a released key is granted under a larger fence", releasedClaim},
	{"I5: an expired key is granted once, then replayed", expiredClaim},
	{"a key that never runs again is not granted after its retention", neverAgain},
	{"a key kept for ever has no end", keptForEver},
	{"I49: nothing expires before max_processing and margin are over", noEarlyExpiry},
	{"an unknown key is not claimable", unknownClaim},
	{"a policy that makes no sense is refused with all its problems", badPolicy},
}

func freshClaim(s *suite) {
	p := retry()
	p.Lease, p.AfterExpiry = time.Minute, fallback.NeverAgain
	r := request(p)
	before := time.Now()
	g := s.claim(r)
	after := time.Now()
	if g.Fence < 1 || g.Attempt != 1 {
		s.Fatalf("fence %d, attempt %d", g.Fence, g.Attempt)
	}
	s.between("Deadline", g.Deadline, before.Add(58*time.Second), after.Add(p.Lease))
	s.between("Cap", g.Cap, before.Add(p.MaxProcessing*98/100), after.Add(p.MaxProcessing))

	got := s.state(r.Digest, fallback.Processing)
	want := fallback.Record{
		Key: r.Key, Digest: r.Digest, State: fallback.Processing, Fence: g.Fence, Token: r.Token,
		Owner: r.Owner, Fingerprint: r.Fingerprint, Policy: p, Attempts: 1,
		Version: fallback.RecordVersion,
	}
	s.same("the row", want, got, cmpopts.IgnoreFields(fallback.Record{}, "ClaimedAt", "LeaseUntil", "Now", "Grant"))
	if left := got.LeaseUntil.Sub(got.ClaimedAt); left < p.Lease || left > p.Lease+time.Second {
		s.Fatalf("the lease lasts %v, want %v", left, p.Lease)
	}
	if got.Grant == nil {
		s.Fatal("a re-read of a claim says nothing of its deadline")
	}
	s.between("Deadline of the re-read", got.Grant.Deadline, before.Add(58*time.Second), time.Now().Add(p.Lease))
}

func (s *suite) between(what string, t, from, to time.Time) {
	s.Helper()
	if t.Before(from) || t.After(to) {
		s.Fatalf("%s is %v, not between %v and %v", what, t, from, to)
	}
}

func heldClaim(s *suite) {
	r, mine := s.held(hold())
	row := s.denied(again(r))
	if row.State != fallback.Processing || row.Token != mine.Token || row.Fence != mine.Fence || row.Lapsed() {
		s.Fatalf("the row in the way is %+v", row)
	}
}

func sameOwner(s *suite) {
	r := request(hold()) // its reply was lost with the process that sent it
	old := ref(r, s.claim(r))
	row := s.denied(again(r))
	if row.Owner != r.Owner || row.Token != old.Token {
		s.Fatalf("the row in the way is %+v", row)
	}
	mine := ref(again(r), &fallback.Grant{Fence: row.Fence})
	_, err := s.ledger.Complete(s.ctx, done(mine, "adopted"))
	s.refused(err)
	s.refused(s.ledger.Release(s.ctx, mine, "adopted"))
	_, err = s.ledger.Renew(s.ctx, mine, true)
	s.refused(err)
	s.state(r.Digest, fallback.Processing)
}

func manyClaims(s *suite) {
	r := request(hold())
	var mu sync.Mutex
	var granted []int64
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			v, err := s.ledger.Claim(s.ctx, again(r))
			if err != nil {
				s.Errorf("Claim: %v", err)
				return
			}
			if v.Granted != nil {
				mu.Lock()
				defer mu.Unlock()
				granted = append(granted, v.Granted.Fence)
			}
		})
	}
	wg.Wait()
	if len(granted) != 1 {
		s.Fatalf("granted under %v, want one fence", granted)
	}
}

func releasedClaim(s *suite) {
	r, mine := s.held(hold())
	for range 5 {
		s.ok(s.ledger.Release(s.ctx, mine, "not started"))
		if row := s.state(r.Digest, fallback.Released); row.ReleasedAt.IsZero() || row.Reason != "not started" {
			s.Fatalf("released row: %+v", row)
		}
		next := again(r)
		g := s.claim(next)
		if g.Fence <= mine.Fence {
			s.Fatalf("fence %d after %d", g.Fence, mine.Fence)
		}
		mine = ref(next, g)
	}
	if row := s.state(r.Digest, fallback.Processing); !row.ReleasedAt.IsZero() || row.Reason != "" || row.Attempts != 1 {
		s.Fatalf("the new claim's row remembers the old one: %+v", row)
	}
}

// expiring returns a completed row whose retention is as short as can be.
func (s *suite) expiring(p fallback.Policy) fallback.ClaimRequest {
	s.Helper()
	p = lapsing(p)
	p.Retention = short
	r, mine := s.held(p)
	if _, err := s.ledger.Complete(s.ctx, done(mine, "first")); err != nil {
		s.Fatal(err)
	}
	return r
}

func expiredClaim(s *suite) {
	r := s.expiring(hold())
	s.awaitExpiry(r.Digest)
	old := s.read(r.Digest)
	next := again(r)
	next.Policy = hold()
	next.Fingerprint = fallback.Fingerprint{Version: 2, Sum: []byte("another")}
	g := s.claim(next)
	if g.Fence <= old.Fence || g.Attempt != 1 {
		s.Fatalf("granted %+v after fence %d", g, old.Fence)
	}
	if row := s.state(r.Digest, fallback.Processing); len(row.Response) > 0 || row.Status != 0 ||
		!row.ExpiresAt.IsZero() || !row.CompletedAt.IsZero() || !row.Fingerprint.Equal(next.Fingerprint) {
		s.Fatalf("the new claim's row remembers the old response: %+v", row)
	}
	if _, err := s.ledger.Complete(s.ctx, done(ref(next, g), "second")); err != nil {
		s.Fatal(err)
	}
	for range 2 {
		if row := s.denied(again(r)); string(row.Response) != "second" || row.Status != 201 {
			s.Fatalf("replayed %q", row.Response)
		}
	}
}

func neverAgain(s *suite) {
	p := hold()
	p.AfterExpiry = fallback.NeverAgain
	r := s.expiring(p)
	s.awaitExpiry(r.Digest)
	if row := s.denied(again(r)); row.State != fallback.Completed || !row.Expired() {
		s.Fatalf("the row in the way: %+v", row)
	}
}

func keptForEver(s *suite) {
	p := hold()
	p.Retention = fallback.Forever
	_, mine := s.held(p)
	rec, err := s.ledger.Complete(s.ctx, done(mine, "kept"))
	s.ok(err)
	if !rec.ExpiresAt.IsZero() || rec.Policy.Retention != fallback.Forever {
		s.Fatalf("expires at %v", rec.ExpiresAt)
	}
}

func noEarlyExpiry(s *suite) {
	p := hold()
	p.Retention = short
	_, mine := s.held(p)
	rec, err := s.ledger.Complete(s.ctx, done(mine, "early"))
	s.ok(err)
	if want := rec.ClaimedAt.Add(p.MaxProcessing + fallback.Margin); !rec.ExpiresAt.Equal(want) {
		s.Fatalf("expires at %v, want %v", rec.ExpiresAt, want)
	}
}

func unknownClaim(s *suite) {
	r, mine := s.held(hold())
	s.ok(s.ledger.Abandon(s.ctx, mine, "panic"))
	if row := s.denied(again(r)); row.State != fallback.Unknown || row.Reason != "panic" || row.Fence != mine.Fence {
		s.Fatalf("the row in the way: %+v", row)
	}
}

func badPolicy(s *suite) {
	v, err := s.ledger.Claim(s.ctx, request(fallback.Policy{Takeover: fallback.Retry}))
	if err == nil {
		s.Fatalf("granted: %+v", v)
	}
	for _, word := range []string{"lease", "attempts", "retention"} {
		if !contains(err, word) {
			s.Errorf("%v does not mention the %s", err, word)
		}
	}
	if _, err := s.ledger.TakeOver(s.ctx, request(fallback.Policy{}), 1); err == nil {
		s.Error("TakeOver takes a policy that Claim refuses")
	}
}

func contains(err error, word string) bool {
	return len(word) > 0 && containsFold(fmt.Sprint(err), word)
}
