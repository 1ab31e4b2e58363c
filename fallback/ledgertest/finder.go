package ledgertest

import (
	"sync"

	"github.com/redfence/redfence/fallback"
)

var finderTests = []test{
	{"a lapsed Retry row is taken over under a larger fence", takeOver},
	{"a take-over needs every condition", takeOverConditions},
	{"I31: of many take-overs at once one is granted", manyTakeOvers},
	{"I52: the attempts of a row run out", attempts},
	{"I44: the row's policy decides, not the finder's", rowsPolicy},
	{"a lapsed Hold row becomes unknown and keeps its fence", lapse},
	{"a lapsed stream becomes a tombstone", lapsedStream},
}

func takeOver(s *suite) {
	r, stale := s.held(lapsing(retry()))
	s.awaitLapse(r.Digest)
	next := again(r)
	next.Owner, next.Policy = "test/2", hold()
	v, err := s.ledger.TakeOver(s.ctx, next, stale.Fence)
	s.ok(err)
	if v.Granted == nil || v.Row != nil || v.Granted.Fence <= stale.Fence || v.Granted.Attempt != 2 {
		s.Fatalf("taken over with %+v, row %+v", v.Granted, v.Row)
	}
	row := s.state(r.Digest, fallback.Processing)
	if row.Owner != "test/2" || row.Policy != next.Policy || row.Token != next.Token || row.Lapsed() {
		s.Fatalf("the row is %+v", row)
	}
	_, err = s.ledger.Complete(s.ctx, done(stale, "stale"))
	s.refused(err)
	_, err = s.ledger.Renew(s.ctx, stale, true)
	s.refused(err)
	s.refused(s.ledger.Release(s.ctx, stale, "stale"))
	s.refused(s.ledger.Abandon(s.ctx, stale, "stale"))
	_, err = s.ledger.Complete(s.ctx, done(ref(next, v.Granted), "fresh"))
	s.ok(err)
}

func takeOverConditions(s *suite) {
	denied := func(what string, r fallback.ClaimRequest, fence int64) {
		s.Helper()
		v, err := s.ledger.TakeOver(s.ctx, again(r), fence)
		s.ok(err)
		if v.Granted != nil {
			s.Fatalf("%s: taken over", what)
		}
		if v.Row == nil || v.Row.Digest != r.Digest {
			s.Fatalf("%s: the row is %+v", what, v.Row)
		}
	}
	r, mine := s.held(retry())
	denied("in force", r, mine.Fence)
	r, mine = s.held(lapsing(retry()))
	s.awaitLapse(r.Digest)
	denied("another fence", r, mine.Fence-1)
	for _, f := range []fallback.Fingerprint{
		{Version: 1, Secret: 2, Sum: []byte("other")},
		{Version: 1, Secret: 3, Sum: []byte("body")},
		{Version: 2, Secret: 2, Sum: []byte("body")},
		{},
	} {
		other := r
		other.Fingerprint = f
		denied("another request", other, mine.Fence)
	}
	s.ok(s.ledger.Release(s.ctx, mine, "undone"))
	denied("released", r, mine.Fence)
	denied("absent", request(retry()), 1)
	r, mine = s.held(lapsing(hold()))
	s.awaitLapse(r.Digest)
	denied("Hold", r, mine.Fence)
}

func manyTakeOvers(s *suite) {
	r, stale := s.held(lapsing(retry()))
	s.awaitLapse(r.Digest)
	var mu sync.Mutex
	granted := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			next := again(r)
			next.Policy = retry()
			v, err := s.ledger.TakeOver(s.ctx, next, stale.Fence)
			if err != nil {
				s.Errorf("TakeOver: %v", err)
			}
			if v.Granted != nil {
				mu.Lock()
				defer mu.Unlock()
				granted++
			}
		})
	}
	wg.Wait()
	if granted != 1 {
		s.Fatalf("granted %d times", granted)
	}
}

func attempts(s *suite) {
	p := lapsing(retry())
	p.MaxAttempts = 3
	r, mine := s.held(p)
	for attempt := 2; attempt <= p.MaxAttempts; attempt++ {
		s.awaitLapse(r.Digest)
		row, err := s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
		s.ok(err)
		if row.State != fallback.Processing {
			s.Fatalf("%v before attempt %d", row.State, attempt)
		}
		next := again(r)
		v, err := s.ledger.TakeOver(s.ctx, next, mine.Fence)
		s.ok(err)
		if v.Granted == nil || v.Granted.Attempt != attempt {
			s.Fatalf("attempt %d: %+v", attempt, v.Granted)
		}
		mine = ref(next, v.Granted)
	}
	s.awaitLapse(r.Digest)
	v, err := s.ledger.TakeOver(s.ctx, again(r), mine.Fence)
	s.ok(err)
	if v.Granted != nil {
		s.Fatalf("attempt %d of %d", v.Granted.Attempt, p.MaxAttempts)
	}
	row, err := s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
	s.ok(err)
	if row.State != fallback.Unknown || row.Fence != mine.Fence || row.Attempts != p.MaxAttempts {
		s.Fatalf("the row is %+v", row)
	}
}

func rowsPolicy(s *suite) {
	r, mine := s.held(lapsing(hold()))
	s.awaitLapse(r.Digest)
	finder := again(r)
	finder.Policy = retry()
	v, err := s.ledger.TakeOver(s.ctx, finder, mine.Fence)
	s.ok(err)
	if v.Granted != nil {
		s.Fatal("a Hold row was taken over by a finder under Retry")
	}
	r, mine = s.held(lapsing(retry()))
	s.awaitLapse(r.Digest)
	row, err := s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
	s.ok(err)
	if row.State != fallback.Processing {
		s.Fatalf("a Retry row with attempts left became %v", row.State)
	}
}

func lapse(s *suite) {
	r, mine := s.held(hold())
	row, err := s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
	s.ok(err)
	if row.State != fallback.Processing {
		s.Fatalf("a lease in force lapsed to %v", row.State)
	}
	r, mine = s.held(lapsing(hold()))
	s.awaitLapse(r.Digest)
	row, err = s.ledger.Lapse(s.ctx, r.Digest, mine.Fence+1)
	s.ok(err)
	if row.State != fallback.Processing {
		s.Fatalf("another fence lapsed to %v", row.State)
	}
	for range 2 {
		row, err = s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
		s.ok(err)
		if row.State != fallback.Unknown || row.Fence != mine.Fence || row.Token != mine.Token ||
			row.Reason == "" || !row.ExpiresAt.IsZero() {
			s.Fatalf("lapsed to %+v", row)
		}
	}
	row, err = s.ledger.Lapse(s.ctx, request(hold()).Digest, 1)
	s.ok(err)
	if row.State != fallback.Absent {
		s.Fatalf("an absent row is %v", row.State)
	}
}

func lapsedStream(s *suite) {
	r, mine := s.held(lapsing(retry()))
	_, err := s.ledger.Stream(s.ctx, mine)
	s.ok(err)
	s.awaitLapse(r.Digest)
	row, err := s.ledger.Lapse(s.ctx, r.Digest, mine.Fence)
	s.ok(err)
	if row.State != fallback.Tombstone || row.Fence != mine.Fence || row.ExpiresAt.IsZero() || row.CompletedAt.IsZero() {
		s.Fatalf("closed as %+v", row)
	}
	s.denied(again(r))
	rec, err := s.ledger.Bury(s.ctx, fallback.Burial{Ref: mine, Status: 200})
	s.ok(err)
	if rec.Reason != row.Reason {
		s.Fatal("the owner's late end replaced the finder's")
	}
}
