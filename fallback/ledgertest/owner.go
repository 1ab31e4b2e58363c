package ledgertest

import (
	"strings"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redfence/redfence/fallback"
)

var ownerTests = []test{
	{"a renewal moves the lease and the deadline", renew},
	{"a renewal ends at max_processing unless it is late", renewCap},
	{"under Retry a lapsed lease is renewed by the completer only", renewLapsed},
	{"under Hold a lapsed lease is renewed", renewHold},
	{"what is not mine is refused", notMine},
	{"a completion records the response", complete},
	{"a completion sent twice answers with the row's response", completeTwice},
	{"a lapsed lease does not keep its owner from completing", completeLapsed},
	{"I56: the owner ends a row that was marked unknown meanwhile", ownerOfUnknown},
	{"a terminal row is not left again", terminal},
	{"a release sent twice is one release", releaseTwice},
	{"claims that were given back do not count as attempts, starts do", giveBack},
	{"a row is confirmed as it is", confirm},
	{"a stream is never claimable and ends as a tombstone", stream},
	{"a response that cannot be kept leaves a tombstone", bury},
}

func renew(s *suite) {
	p := retry()
	p.Lease = time.Minute
	r, mine := s.held(p)
	before := s.read(r.Digest)
	sent := time.Now()
	g, err := s.ledger.Renew(s.ctx, mine, false)
	s.ok(err)
	after := s.read(r.Digest)
	if !after.LeaseUntil.After(before.LeaseUntil) {
		s.Fatalf("the lease went from %v to %v", before.LeaseUntil, after.LeaseUntil)
	}
	if g.Fence != mine.Fence || g.Attempt != 1 {
		s.Fatalf("renewed %+v", g)
	}
	s.between("Deadline", g.Deadline, sent.Add(58*time.Second), time.Now().Add(p.Lease))
}

func renewCap(s *suite) {
	p := hold()
	p.Lease, p.MaxProcessing = time.Minute, 61*time.Second
	r, mine := s.held(p)
	_, err := s.ledger.Renew(s.ctx, mine, false)
	s.ok(err)
	row := s.read(r.Digest)
	if limit := row.ClaimedAt.Add(p.MaxProcessing); row.LeaseUntil.After(limit) {
		s.Fatalf("the lease ends %v after max_processing", row.LeaseUntil.Sub(limit))
	}
	p.Lease, p.MaxProcessing = short, short
	r, mine = s.held(p)
	s.awaitLapse(r.Digest)
	_, err = s.ledger.Renew(s.ctx, mine, true)
	s.ok(err)
	row = s.read(r.Digest)
	if limit := row.ClaimedAt.Add(p.MaxProcessing); !row.LeaseUntil.After(limit) {
		s.Fatal("the completer's renewal did not outlast max_processing")
	}
}

func renewLapsed(s *suite) {
	r, mine := s.held(lapsing(retry()))
	s.awaitLapse(r.Digest)
	_, err := s.ledger.Renew(s.ctx, mine, false)
	s.refused(err)
	_, err = s.ledger.Renew(s.ctx, mine, true)
	s.ok(err)
}

func renewHold(s *suite) {
	p := hold()
	p.Lease = short
	r, mine := s.held(p)
	s.awaitLapse(r.Digest)
	before := s.read(r.Digest)
	_, err := s.ledger.Renew(s.ctx, mine, false)
	s.ok(err)
	if after := s.read(r.Digest); !after.LeaseUntil.After(before.LeaseUntil) {
		s.Fatal("the lease has not moved")
	}
}

func notMine(s *suite) {
	r, mine := s.held(hold())
	token, fence, absent := mine, mine, mine
	token.Token = fallback.NewToken()
	fence.Fence++
	absent.Digest = request(hold()).Digest
	for _, other := range []fallback.Ref{token, fence, absent} {
		_, err := s.ledger.Renew(s.ctx, other, true)
		s.refused(err)
		_, err = s.ledger.Complete(s.ctx, done(other, "not mine"))
		s.refused(err)
		s.refused(s.ledger.Release(s.ctx, other, "not mine"))
		s.refused(s.ledger.Abandon(s.ctx, other, "not mine"))
		_, err = s.ledger.Stream(s.ctx, other)
		s.refused(err)
		_, err = s.ledger.Bury(s.ctx, fallback.Burial{Ref: other})
		s.refused(err)
	}
	if row := s.state(r.Digest, fallback.Processing); row.Fence != mine.Fence || row.Reason != "" {
		s.Fatalf("the row has changed: %+v", row)
	}
}

func complete(s *suite) {
	p := hold()
	r, mine := s.held(p)
	rec, err := s.ledger.Complete(s.ctx, done(mine, "body"))
	s.ok(err)
	row := s.state(r.Digest, fallback.Completed)
	for _, got := range []fallback.Record{rec, row} {
		if string(got.Response) != "body" || got.Status != 201 || got.Reason != "done" ||
			got.Fence != mine.Fence || got.Token != mine.Token || got.CompletedAt.IsZero() || got.Grant != nil {
			s.Fatalf("completed row: %+v", got)
		}
		if keep := got.ExpiresAt.Sub(got.CompletedAt); keep < p.Retention || keep > p.Retention+2*time.Second {
			s.Fatalf("kept for %v, want %v", keep, p.Retention)
		}
	}
}

func completeTwice(s *suite) {
	_, mine := s.held(hold())
	first, err := s.ledger.Complete(s.ctx, done(mine, "first"))
	s.ok(err)
	second, err := s.ledger.Complete(s.ctx, done(mine, "second"))
	s.ok(err)
	if string(second.Response) != "first" || !second.CompletedAt.Equal(first.CompletedAt) {
		s.Fatalf("the second send answers %q", second.Response)
	}
}

func completeLapsed(s *suite) {
	r, mine := s.held(lapsing(retry()))
	s.awaitLapse(r.Digest)
	_, err := s.ledger.Complete(s.ctx, done(mine, "late"))
	s.ok(err)
	s.state(r.Digest, fallback.Completed)
}

func ownerOfUnknown(s *suite) {
	unknown := func() (fallback.ClaimRequest, fallback.Ref) {
		r, mine := s.held(lapsing(hold()))
		s.awaitLapse(r.Digest)
		row, err := s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
		s.ok(err)
		if row.State != fallback.Unknown || row.Fence != mine.Fence {
			s.Fatalf("lapsed to %+v", row)
		}
		return r, mine
	}
	r, mine := unknown()
	_, err := s.ledger.Complete(s.ctx, done(mine, "late"))
	s.ok(err)
	s.state(r.Digest, fallback.Completed)

	r, mine = unknown()
	s.ok(s.ledger.Release(s.ctx, mine, "undone"))
	s.state(r.Digest, fallback.Released)

	r, mine = unknown()
	s.ok(s.ledger.Abandon(s.ctx, mine, "panic"))
	s.state(r.Digest, fallback.Unknown)

	r, mine = unknown()
	_, err = s.ledger.Bury(s.ctx, fallback.Burial{Ref: mine, Status: 200, Size: 9})
	s.ok(err)
	s.state(r.Digest, fallback.Tombstone)

	r, mine = unknown()
	_, err = s.ledger.Stream(s.ctx, mine)
	s.ok(err)
	s.state(r.Digest, fallback.Streaming)

	_, mine = unknown()
	_, err = s.ledger.Renew(s.ctx, mine, true)
	s.refused(err)
}

func terminal(s *suite) {
	r, mine := s.held(hold())
	_, err := s.ledger.Complete(s.ctx, done(mine, "kept"))
	s.ok(err)
	s.refused(s.ledger.Release(s.ctx, mine, "late"))
	s.refused(s.ledger.Abandon(s.ctx, mine, "late"))
	_, err = s.ledger.Renew(s.ctx, mine, true)
	s.refused(err)
	_, err = s.ledger.Stream(s.ctx, mine)
	s.refused(err)
	_, err = s.ledger.Bury(s.ctx, fallback.Burial{Ref: mine})
	s.refused(err)
	row, err := s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
	s.ok(err)
	if row.State != fallback.Completed || string(row.Response) != "kept" {
		s.Fatalf("the row has changed: %+v", row)
	}
}

func releaseTwice(s *suite) {
	r, mine := s.held(hold())
	s.ok(s.ledger.Release(s.ctx, mine, "first"))
	s.ok(s.ledger.Release(s.ctx, mine, "second"))
	if row := s.state(r.Digest, fallback.Released); row.Reason != "first" {
		s.Fatalf("the second send changed the row: %+v", row)
	}
	_, err := s.ledger.Complete(s.ctx, done(mine, "late"))
	s.refused(err)
	s.claim(again(r))
	s.refused(s.ledger.Release(s.ctx, mine, "third"))
	s.state(r.Digest, fallback.Processing)
}

func giveBack(s *suite) {
	r, mine := s.held(lapsing(retry())) // started: nobody said otherwise
	s.awaitLapse(r.Digest)
	_, err := s.ledger.TakeOver(s.ctx, again(r), mine.Fence)
	s.ok(err)
	for range 3 {
		row := s.read(r.Digest)
		if row.Attempts != 2 {
			s.Fatalf("attempt %d after one start, want 2", row.Attempts)
		}
		taken := fallback.Ref{Digest: r.Digest, Token: row.Token, Fence: row.Fence}
		s.ok(s.ledger.GiveBack(s.ctx, taken, "caller gone"))
		s.ok(s.ledger.GiveBack(s.ctx, taken, "sent twice"))
		if row = s.state(r.Digest, fallback.Released); row.Attempts != 1 || row.Reason != "caller gone" || row.ReleasedAt.IsZero() {
			s.Fatalf("given back: %+v", row)
		}
		s.claim(again(r))
		s.refused(s.ledger.GiveBack(s.ctx, taken, "not mine any more"))
	}
	row := s.read(r.Digest)
	s.ok(s.ledger.Release(s.ctx, fallback.Ref{Digest: r.Digest, Token: row.Token, Fence: row.Fence}, "undone"))
	if g := s.claim(again(r)); g.Attempt != 1 {
		s.Fatalf("attempt %d after a release, want 1", g.Attempt)
	}
	_, old := s.unknown(hold())
	s.ok(s.ledger.GiveBack(s.ctx, old, "never started"))
}

func confirm(s *suite) {
	r := request(hold())
	row, err := s.ledger.Confirm(s.ctx, r.Digest)
	s.ok(err)
	if row.State != fallback.Absent || row.Now.IsZero() {
		s.Fatalf("confirmed %+v", row)
	}
	sent := time.Now()
	g := s.claim(r)
	row, err = s.ledger.Confirm(s.ctx, r.Digest)
	s.ok(err)
	if row.State != fallback.Processing || row.Token != r.Token || row.Fence != g.Fence || row.Grant == nil {
		s.Fatalf("confirmed %+v", row)
	}
	s.between("Deadline of the confirmation", row.Grant.Deadline, sent, time.Now().Add(r.Policy.Lease))
	_, err = s.ledger.Complete(s.ctx, done(ref(r, g), "body"))
	s.ok(err)
	row, err = s.ledger.Confirm(s.ctx, r.Digest)
	s.ok(err)
	want := s.state(r.Digest, fallback.Completed)
	s.same("the row", want, row, cmpopts.IgnoreFields(fallback.Record{}, "Now"))
}

func stream(s *suite) {
	p := lapsing(retry())
	p.Retention = short
	r, mine := s.held(p)
	g, err := s.ledger.Stream(s.ctx, mine)
	s.ok(err)
	if g.Fence != mine.Fence {
		s.Fatalf("granted %+v", g)
	}
	_, err = s.ledger.Stream(s.ctx, mine)
	s.ok(err)
	s.awaitLapse(r.Digest)
	if row := s.denied(again(r)); row.State != fallback.Streaming || !row.ExpiresAt.IsZero() {
		s.Fatalf("the row in the way: %+v", row)
	}
	v, err := s.ledger.TakeOver(s.ctx, again(r), mine.Fence)
	s.ok(err)
	if v.Granted != nil {
		s.Fatal("a stream was taken over")
	}
	_, err = s.ledger.Renew(s.ctx, mine, false)
	s.ok(err)
	_, err = s.ledger.Complete(s.ctx, done(mine, "no"))
	s.refused(err)
	s.refused(s.ledger.Release(s.ctx, mine, "no"))
	s.refused(s.ledger.Abandon(s.ctx, mine, "no"))
	rec, err := s.ledger.Bury(s.ctx, fallback.Burial{Ref: mine, Status: 200, Size: 1 << 33, Reason: "streamed"})
	s.ok(err)
	if rec.State != fallback.Tombstone || rec.Size != 1<<33 || rec.Status != 200 || rec.Fence != mine.Fence || rec.ExpiresAt.IsZero() {
		s.Fatalf("buried as %+v", rec)
	}
	s.awaitExpiry(r.Digest)
	s.claim(again(r))
}

func bury(s *suite) {
	r, mine := s.held(hold())
	b := fallback.Burial{Ref: mine, Status: 200, Size: 12345, Reason: "too large"}
	_, err := s.ledger.Bury(s.ctx, b)
	s.ok(err)
	rec, err := s.ledger.Bury(s.ctx, fallback.Burial{Ref: mine, Reason: "again"})
	s.ok(err)
	if rec.Size != 12345 || rec.Reason != "too large" || rec.Grant != nil {
		s.Fatalf("the second send changed the row: %+v", rec)
	}
	if row := s.denied(again(r)); row.State != fallback.Tombstone || row.Status != 200 {
		s.Fatalf("the row in the way: %+v", row)
	}
}

func containsFold(s, word string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(word))
}
