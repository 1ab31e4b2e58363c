package redfencehttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence"
)

func TestBodyLimits(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); len(body) != 100 {
			t.Errorf("the handler reads %d bytes", len(body))
		}
	}, IETF(), Unscoped(), MaxRequest(100))
	s.post("/", strings.Repeat("x", 100), key).want(t, 200, false)
	s.post("/", strings.Repeat("x", 101), key).wantProblem(t, 413, "request-too-large")
	chunked, _ := http.NewRequest("POST", s.URL, io.MultiReader(strings.NewReader(strings.Repeat("x", 101))))
	chunked.Header.Set("Idempotency-Key", "another")
	s.send(chunked).wantProblem(t, 413, "request-too-large")
	s.wantRuns(1)
}

func TestMaxPerScope(t *testing.T) {
	g := newGate(t)
	s := serve(t, func(http.ResponseWriter, *http.Request) { g.wait() }, IETF(), MaxPerScope(2),
		Scope(func(r *http.Request) string { return r.Header.Get("X-Tenant") }))
	done := make(chan reply, 3)
	for i := range 2 {
		go func() { done <- s.post("/", "", fmt.Sprintf("Idempotency-Key: k%d", i), "X-Tenant: a") }()
		<-g.arrived
	}
	s.post("/", "", "Idempotency-Key: k3", "X-Tenant: a").wantProblem(t, 503, "overloaded")
	go func() { done <- s.post("/", "", "Idempotency-Key: k3", "X-Tenant: b") }()
	<-g.arrived
	g.release()
	for range 3 {
		(<-done).want(t, 200, false)
	}
	s.post("/", "", "Idempotency-Key: k3", "X-Tenant: a").want(t, 200, false)
}

func TestWithoutBodies(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Secret", "1")
		io.WriteString(w, "secret")
	}, Webhook(), WithoutBodies(), Unscoped())
	if r := s.post("/", "", key); r.body != "secret" {
		t.Errorf("first: %q", r.body)
	}
	r := s.post("/", "", key)
	r.want(t, 200, true)
	if r.body != `{"cached":true,"message":"Request already processed"}` || r.Header.Get("X-Secret") != "" {
		t.Errorf("replay: %q %v", r.body, r.Header)
	}
}

func TestDeclare(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		Declare(r.Context(), map[string]Disposition{"/released": Released, "/stored": Stored, "/unknown": Unknown}[r.URL.Path])
		w.WriteHeader(http.StatusServiceUnavailable)
	}, IETF(), Unscoped())
	for path, want := range map[string]struct {
		status   int
		replayed bool
	}{"/released": {503, false}, "/stored": {503, true}, "/unknown": {409, false}} {
		s.post(path, "", "Idempotency-Key: "+path).want(t, 503, false)
		s.post(path, "", "Idempotency-Key: "+path).want(t, want.status, want.replayed)
	}
	s.wantRuns(4)
}

func TestWaitThenReplay(t *testing.T) {
	g := newGate(t)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { g.wait(); io.WriteString(w, "done") }, IETF(), Unscoped(), Wait(time.Minute))
	replies := make(chan reply, 6)
	for range 6 {
		go func() { replies <- s.post("/", "", key) }()
	}
	<-g.arrived
	g.release()
	replayed := 0
	for range 6 {
		r := <-replies
		if r.StatusCode != 200 || r.body != "done" {
			t.Errorf("%d %q", r.StatusCode, r.body)
		}
		if r.Header.Get(ReplayedHeader) == "true" {
			replayed++
		}
	}
	if replayed != 5 {
		t.Errorf("%d replayed, want 5", replayed)
	}
	s.wantRuns(1)
}

func TestNeverAgain(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), Unscoped(), NeverAgain(http.StatusGone),
		Policy(redfence.Policy{Wait: redfence.NoWait, Lease: 100 * time.Millisecond, MaxProcessing: 100 * time.Millisecond,
			Retention: 100 * time.Millisecond, AfterExpiry: redfence.NeverAgain}))
	s.post("/", "", key).want(t, 200, false)
	deadline := time.Now().Add(20 * time.Second)
	r := s.post("/", "", key)
	for r.StatusCode == 200 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
		r = s.post("/", "", key)
	}
	r.wantProblem(t, http.StatusGone, "expired")
	s.wantRuns(1)
}

func TestCancelWithClient(t *testing.T) {
	ended := make(chan struct{})
	arrived := make(chan struct{})
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(ended)
	}, IETF(), Unscoped(), CancelWithClient())
	done := make(chan reply, 1)
	go func() { done <- s.post("/", "", key) }()
	<-arrived
	s.CloseClientConnections()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the handler's context goes on without its client")
	}
	<-done
}

// A hook decides what nobody recorded: here, that the charge went through.
func TestRecover(t *testing.T) {
	hook := func(_ context.Context, u redfence.UnknownKey) (redfence.Recovery, error) {
		return redfence.Recovery{Response: &redfence.Response{Status: 201, Body: []byte("found " + u.Key.ID)}}, nil
	}
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, IETF(), Unscoped(), Recover(hook),
		Lease(100*time.Millisecond), MaxProcessing(100*time.Millisecond))
	s.post("/", "", "Idempotency-Key: tx").want(t, 502, false)
	deadline := time.Now().Add(20 * time.Second)
	r := s.post("/", "", "Idempotency-Key: tx")
	for r.StatusCode == 409 && time.Now().Before(deadline) { // not before the cap has passed
		time.Sleep(20 * time.Millisecond)
		r = s.post("/", "", "Idempotency-Key: tx")
	}
	r.want(t, 201, true)
	if r.body != "found tx" {
		t.Errorf("body %q", r.body)
	}
	s.wantRuns(1)
}
