package redfencehttp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
)

// A cable is one engine's connection to the ledger; once cut, nothing of the
// engine reaches it any more, as if its process were gone.
type cable struct {
	fallback.Ledger
	cut atomic.Bool
}

func (c *cable) err() error {
	if c.cut.Load() {
		return fallback.ErrUnavailable
	}
	return nil
}

func (c *cable) Claim(ctx context.Context, r fallback.ClaimRequest) (fallback.Verdict, error) {
	if err := c.err(); err != nil {
		return fallback.Verdict{}, err
	}
	return c.Ledger.Claim(ctx, r)
}

func (c *cable) Read(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	if err := c.err(); err != nil {
		return fallback.Record{}, err
	}
	return c.Ledger.Read(ctx, d)
}

func (c *cable) Renew(ctx context.Context, ref fallback.Ref, late bool) (fallback.Grant, error) {
	if err := c.err(); err != nil {
		return fallback.Grant{}, err
	}
	return c.Ledger.Renew(ctx, ref, late)
}

func (c *cable) Complete(ctx context.Context, r fallback.Completion) (fallback.Record, error) {
	if err := c.err(); err != nil {
		return fallback.Record{}, err
	}
	return c.Ledger.Complete(ctx, r)
}

func (c *cable) Stream(ctx context.Context, ref fallback.Ref) (fallback.Grant, error) {
	if err := c.err(); err != nil {
		return fallback.Grant{}, err
	}
	return c.Ledger.Stream(ctx, ref)
}

func (c *cable) Bury(ctx context.Context, b fallback.Burial) (fallback.Record, error) {
	if err := c.err(); err != nil {
		return fallback.Record{}, err
	}
	return c.Ledger.Bury(ctx, b)
}

// I16: 10 MB reaches the first client in full; duplicates get the tombstone's
// answer, never a truncated body, and the handler runs once.
func TestI16TooLargeToReplay(t *testing.T) {
	body := strings.Repeat("0123456789", 1<<20)
	for name, preset := range map[string]Option{"Hold": IETF(), "Retry": Webhook()} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }, preset, Unscoped())
			first := s.post("/", "", key)
			first.want(t, 200, false)
			if first.body != body || first.Header.Get(DurableHeader) != "false" {
				t.Errorf("first: %d bytes, %v", len(first.body), first.Header)
			}
			for range 2 {
				s.post("/", "", key).wantProblem(t, 409, "response-not-replayable")
			}
			s.wantRuns(1)
		})
	}
}

// However a handler ends after its response has begun to leave, the key is a
// tombstone.
func TestStreamsEndAsTombstones(t *testing.T) {
	for name, end := range map[string]func(){"return": func() {}, "panic": func() { panic("boom") }} {
		for preset, option := range map[string]Option{"IETF": IETF(), "Stripe": Stripe(), "Webhook": Webhook()} {
			t.Run(preset+"/"+name, func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusInternalServerError) // released or unknown, had it been recorded
					w.(http.Flusher).Flush()
					end()
				}, option, Unscoped())
				s.post("/", "", key)
				s.post("/", "", key).wantProblem(t, 409, "response-not-replayable")
				s.wantRuns(1)
			})
		}
	}
}

func TestDuplicateOfARunningStream(t *testing.T) {
	g := newGate(t)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); g.wait() }, Webhook(), Unscoped())
	done := make(chan reply, 1)
	go func() { done <- s.post("/", "", key) }()
	<-g.arrived
	if r := s.post("/", "", key); r.StatusCode != 429 && r.StatusCode != 409 {
		t.Errorf("got %d", r.StatusCode)
	}
	g.release()
	(<-done).want(t, 200, false)
	s.wantRuns(1)
}

// I50: the handler streams and its instance dies in mid-stream, under Retry:
// it is never run again, and duplicates get the tombstone's answer.
func TestI50KilledInMidStream(t *testing.T) {
	ledger := fallback.NewMemory()
	link := &cable{Ledger: ledger}
	g := newGate(t)
	opts := []Option{Webhook(), Unscoped(), Lease(200 * time.Millisecond), MaxProcessing(time.Minute)}
	a := serveOn(t, newEngine(t, link), func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half of it")
		w.(http.Flusher).Flush()
		g.wait()
	}, opts...)
	b := serveOn(t, newEngine(t, ledger), func(http.ResponseWriter, *http.Request) {}, opts...)
	done := make(chan reply, 1)
	go func() { done <- a.post("/", "", key) }()
	<-g.arrived
	link.cut.Store(true)

	deadline := time.Now().Add(20 * time.Second)
	var r reply
	for {
		r = b.post("/", "", key)
		if r.StatusCode == 409 || time.Now().After(deadline) {
			break
		}
		r.want(t, 429, false)
		time.Sleep(20 * time.Millisecond)
	}
	r.wantProblem(t, 409, "response-not-replayable")
	time.Sleep(500 * time.Millisecond) // more than two leases: still nobody may run it
	b.post("/", "", key).wantProblem(t, 409, "response-not-replayable")
	b.wantRuns(0)
	a.wantRuns(1)
	link.cut.Store(false)
	g.release()
	<-done
}

// Under Retry, a response that cannot be recorded does not leave when the
// ledger cannot be told: another claim may follow. Under Hold it does.
func TestStreamWithoutALedger(t *testing.T) {
	for name, tc := range map[string]struct {
		preset Option
		status int
		body   string
	}{"Retry": {Webhook(), 503, ""}, "Hold": {IETF(), 200, "streamed"}} {
		t.Run(name, func(t *testing.T) {
			link := &cable{Ledger: fallback.NewMemory()}
			quick := func(c *redfence.Config) { c.LedgerTimeout = 200 * time.Millisecond }
			s := serveOn(t, newEngine(t, link, quick), func(w http.ResponseWriter, _ *http.Request) {
				link.cut.Store(true)
				io.WriteString(w, "streamed")
				w.(http.Flusher).Flush()
			}, tc.preset, Unscoped())
			r := s.post("/", "", key)
			if r.StatusCode != tc.status || (tc.body != "" && r.body != tc.body) || strings.Contains(r.body, "streamed") != (tc.body != "") {
				t.Errorf("got %d %q", r.StatusCode, r.body)
			}
			link.cut.Store(false)
		})
	}
}
