package ledgertest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redfence/redfence/fallback"
)

var edgeTests = []test{
	{"an absent row is read as absent", absent},
	{"I28: keys are opaque bytes", opaqueKeys},
	{"I46: texts for people hurt nobody", texts},
	{"responses are kept byte for byte", responses},
	{"a context that is done counts before anything is sent", doneContext},
	{"the clock is estimated within its margin", clock},
	{"a closed ledger says so", closed},
	{"a wake-up reaches who watches", wake},
}

func absent(s *suite) {
	d := request(hold()).Digest
	row := s.read(d)
	if row.State != fallback.Absent || row.Digest != d || row.Grant != nil || row.Now.IsZero() {
		s.Fatalf("read %+v", row)
	}
}

func opaqueKeys(s *suite) {
	base := request(hold()).Key.ID
	keys := []fallback.Key{
		{Namespace: "do", Scope: "t", ID: base + "abc"},
		{Namespace: "do", Scope: "t", ID: base + "ABC"},
		{Namespace: "do", Scope: "T", ID: base + "abc"},
		{Namespace: "lock", Scope: "t", ID: base + "abc"},
		{Namespace: "do", Scope: "t", ID: base + "abc "},
		{Namespace: "do", Scope: "t", ID: base + "\u00e9"},
		{Namespace: "do", Scope: "t", ID: base + "e\u0301"},
		{Namespace: "do", Scope: "t", ID: base + "\x00"},
		{Namespace: "do", Scope: "t", ID: base + "\x00\x00"},
		{Namespace: "do", Scope: "t\xff\xfe", ID: base},
		{Namespace: "do", Scope: "t" + base, ID: ""},
		{Namespace: "do", Scope: "", ID: "t" + base},
		{Namespace: "do", Scope: "{x}", ID: base + strings.Repeat("k", 9000)},
	}
	for _, k := range keys {
		s.claim(requestFor(k, hold()))
	}
	for _, k := range keys {
		if got := s.read(k.Digest()).Key; got != k {
			s.Errorf("key %q came back as %q", k, got)
		}
	}
}

func texts(s *suite) {
	r := request(hold())
	r.Owner = "host\x00\xff" + strings.Repeat("é", 400)
	mine := ref(r, s.claim(r))
	if row := s.read(r.Digest); len(row.Owner) > 500 || !strings.HasPrefix(row.Owner, "host") {
		s.Fatalf("owner %q", row.Owner)
	}
	c := done(mine, "x-header: \x00")
	c.Reason = "a\x00b\xc3"
	rec, err := s.ledger.Complete(s.ctx, c)
	s.ok(err)
	if string(rec.Response) != "x-header: \x00" || !strings.HasPrefix(rec.Reason, "a") {
		s.Fatalf("kept %q, %q", rec.Response, rec.Reason)
	}
}

func responses(s *suite) {
	for _, body := range []string{"", "\x00\xff", strings.Repeat("r", 70<<10), strings.Repeat("\x01\x02", 1<<20)} {
		r, mine := s.held(hold())
		_, err := s.ledger.Complete(s.ctx, done(mine, body))
		s.ok(err)
		if row := s.denied(again(r)); string(row.Response) != body {
			s.Fatalf("%d bytes came back as %d", len(body), len(row.Response))
		}
	}
}

func doneContext(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	r := request(hold())
	_, err := s.ledger.Claim(ctx, r)
	if !errors.Is(err, context.Canceled) {
		s.Fatalf("Claim: %v", err)
	}
	_, err = s.ledger.TakeOver(ctx, r, 1)
	if !errors.Is(err, context.Canceled) {
		s.Fatalf("TakeOver: %v", err)
	}
	s.state(r.Digest, fallback.Absent)
}

func clock(s *suite) {
	now := s.read(request(hold()).Digest).Now
	estimate, margin, ok := s.ledger.Clock()
	if !ok || margin < 0 {
		s.Fatalf("no estimate: %v ± %v, %v", estimate, margin, ok)
	}
	if off := estimate.Sub(now).Abs(); off > margin+time.Second {
		s.Fatalf("off by %v, margin %v", off, margin)
	}
}

func closed(s *suite) {
	_, mine := s.held(hold())
	s.ok(s.ledger.Close())
	s.ok(s.ledger.Close())
	r := request(hold())
	_, claimErr := s.ledger.Claim(s.ctx, r)
	_, takeErr := s.ledger.TakeOver(s.ctx, r, 1)
	_, readErr := s.ledger.Read(s.ctx, r.Digest)
	_, renewErr := s.ledger.Renew(s.ctx, mine, false)
	_, completeErr := s.ledger.Complete(s.ctx, done(mine, ""))
	_, lapseErr := s.ledger.Lapse(s.ctx, r.Digest, 1)
	for _, err := range []error{
		claimErr, takeErr, readErr, renewErr, completeErr, lapseErr,
		s.ledger.Release(s.ctx, mine, ""), s.ledger.Abandon(s.ctx, mine, ""),
	} {
		if !errors.Is(err, fallback.ErrClosed) {
			s.Errorf("got %v, want ErrClosed", err)
		}
	}
}

func wake(s *suite) {
	w, ok := s.ledger.(fallback.Waker)
	if !ok {
		s.Skip("the ledger passes no hints: waiters poll")
	}
	d, other := request(hold()).Digest, request(hold()).Digest
	hint, stop := w.Watch(d)
	defer stop()
	quiet, stopQuiet := w.Watch(other)
	defer stopQuiet()
	// A watcher may be told of anything; what matters is that it is told.
	for deadline := time.After(20 * time.Second); ; {
		s.ok(w.Wake(s.ctx, d))
		select {
		case <-hint:
			stop()
			stop()
			select {
			case <-quiet: // allowed: a hint for nothing
			default:
			}
			return
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			s.Fatal("no hint arrived")
		}
	}
}
