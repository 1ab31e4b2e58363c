// Package ledgertest holds the conformance suite of fallback.Ledger. Whoever
// writes another ledger runs it in a test:
//
//	func TestConformance(t *testing.T) {
//		ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
//			return ledgertest.Harness{Ledger: mine.Open(t)}
//		})
//	}
//
// The suite waits for leases and retentions on the ledger's own clock, so it
// takes a few seconds.
package ledgertest

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/redfence/redfence/fallback"
)

// A Harness is a ledger under test.
type Harness struct {
	// Ledger is open, and empty or used by other tests with keys of their own.
	Ledger fallback.Ledger
}

// Run runs the suite. open is called once for each test of it, and registers
// the clean-up with the *testing.T that it gets.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, group := range [...][]test{claimTests, ownerTests, finderTests, operatorTests, edgeTests} {
		for _, each := range group {
			t.Run(each.name, func(t *testing.T) {
				t.Parallel()
				each.run(&suite{T: t, ledger: open(t).Ledger, ctx: t.Context()})
			})
		}
	}
}

type test struct {
	name string
	run  func(*suite)
}

// suite is what one test works with.
type suite struct {
	*testing.T
	ledger fallback.Ledger
	ctx    context.Context
}

// Durations of the tests. A short lease lapses soon; a long one never does
// while a test runs.
const (
	short = 30 * time.Millisecond
	long  = time.Hour
)

// hold and retry are policies whose lease does not lapse during a test.
func hold() fallback.Policy {
	return fallback.Policy{
		Takeover: fallback.Hold, Lease: long, MaxProcessing: long,
		MaxAttempts: 5, Retention: long,
	}
}

func retry() fallback.Policy {
	p := hold()
	p.Takeover = fallback.Retry
	return p
}

// lapsing returns the policy with a lease and a processing time that end soon.
func lapsing(p fallback.Policy) fallback.Policy {
	p.Lease, p.MaxProcessing = short, short
	return p
}

// request asks for a key that no other test uses.
func request(p fallback.Policy) fallback.ClaimRequest {
	return requestFor(fallback.Key{Namespace: "do", Scope: "acme", ID: rand.Text()}, p)
}

func requestFor(k fallback.Key, p fallback.Policy) fallback.ClaimRequest {
	return fallback.ClaimRequest{
		Key: k, Digest: k.Digest(), Token: fallback.NewToken(), Owner: "test/1",
		Fingerprint: fallback.Fingerprint{Version: 1, Secret: 2, Sum: []byte("body")},
		Policy:      p,
	}
}

// again asks for the same key in another attempt.
func again(r fallback.ClaimRequest) fallback.ClaimRequest {
	r.Token = fallback.NewToken()
	return r
}

func ref(r fallback.ClaimRequest, g *fallback.Grant) fallback.Ref {
	return fallback.Ref{Digest: r.Digest, Token: r.Token, Fence: g.Fence}
}

// claim claims, and fails the test when it is not granted.
func (s *suite) claim(r fallback.ClaimRequest) *fallback.Grant {
	s.Helper()
	v, err := s.ledger.Claim(s.ctx, r)
	if err != nil {
		s.Fatalf("Claim: %v", err)
	}
	if v.Granted == nil || v.Row != nil {
		s.Fatalf("Claim: want a grant, got %+v, row %+v", v.Granted, v.Row)
	}
	return v.Granted
}

// denied claims, and fails the test when it is granted.
func (s *suite) denied(r fallback.ClaimRequest) *fallback.Record {
	s.Helper()
	v, err := s.ledger.Claim(s.ctx, r)
	if err != nil {
		s.Fatalf("Claim: %v", err)
	}
	if v.Granted != nil || v.Row == nil {
		s.Fatalf("Claim: want the row that stands in the way, got a grant %+v", v.Granted)
	}
	return v.Row
}

// held returns a claim of a fresh key under the policy.
func (s *suite) held(p fallback.Policy) (fallback.ClaimRequest, fallback.Ref) {
	s.Helper()
	r := request(p)
	return r, ref(r, s.claim(r))
}

func (s *suite) read(d fallback.Digest) fallback.Record {
	s.Helper()
	r, err := s.ledger.Read(s.ctx, d)
	if err != nil {
		s.Fatalf("Read: %v", err)
	}
	return r
}

// await reads the row until it is as wanted.
func (s *suite) await(d fallback.Digest, what string, wanted func(fallback.Record) bool) fallback.Record {
	s.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r := s.read(d)
		if wanted(r) {
			return r
		}
		if time.Now().After(deadline) {
			s.Fatalf("the row never was %s: %+v", what, r)
		}
	}
}

func (s *suite) awaitLapse(d fallback.Digest) fallback.Record {
	s.Helper()
	return s.await(d, "lapsed", func(r fallback.Record) bool { return r.Lapsed() })
}

// awaitOver waits for claimed_at + max_processing + margin.
func (s *suite) awaitOver(d fallback.Digest) {
	s.Helper()
	s.await(d, "past max_processing and margin", func(r fallback.Record) bool {
		return r.Now.After(r.ClaimedAt.Add(r.Policy.MaxProcessing + fallback.Margin))
	})
}

func (s *suite) awaitExpiry(d fallback.Digest) {
	s.Helper()
	s.await(d, "expired", func(r fallback.Record) bool { return r.Expired() })
}

// state fails the test when the row is in another state.
func (s *suite) state(d fallback.Digest, want fallback.State) fallback.Record {
	s.Helper()
	r := s.read(d)
	if r.State != want {
		s.Fatalf("the row is %v, want %v", r.State, want)
	}
	return r
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) refused(err error) {
	s.Helper()
	if !errors.Is(err, fallback.ErrRefused) {
		s.Fatalf("got %v, want ErrRefused", err)
	}
}

func (s *suite) same(what string, want, got any, options ...cmp.Option) {
	s.Helper()
	if diff := cmp.Diff(want, got, append(options, cmpopts.EquateEmpty())...); diff != "" {
		s.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func done(r fallback.Ref, body string) fallback.Completion {
	return fallback.Completion{Ref: r, Status: 201, Response: []byte(body), Reason: "done"}
}
