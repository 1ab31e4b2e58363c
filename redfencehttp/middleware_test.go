package redfencehttp

import (
	"io"
	"log"
	"net/http"
	"strconv"
	"testing"
	"time"
)

var discardLog = log.New(io.Discard, "", 0)

const key = "Idempotency-Key: 8e03978e-40d5-43dd-bc93-6894a57f9324"

// The session of the README: first request 200, concurrent duplicate 429 with
// Retry-After, later duplicate replayed.
func TestWebhookSession(t *testing.T) {
	g := newGate(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		g.wait()
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"ch_1"}`)
	}, Webhook(), Unscoped())
	first := make(chan reply, 1)
	go func() { first <- s.post("/charges", `{"amount":1}`, key) }()
	<-g.arrived

	busy := s.post("/charges", `{"amount":1}`, key)
	busy.want(t, http.StatusTooManyRequests, false)
	if busy.Header.Get("Retry-After") != "5" || busy.body != `{"error":"Request is currently being processed","retry_after":5}` {
		t.Errorf("Retry-After %q, body %s", busy.Header.Get("Retry-After"), busy.body)
	}
	g.release()
	r := <-first
	r.want(t, http.StatusOK, false)
	if r.body != `{"id":"ch_1"}` || r.Header.Get(DurableHeader) != "" {
		t.Errorf("first: %s, durable %q", r.body, r.Header.Get(DurableHeader))
	}
	again := s.post("/charges", `{"amount":1}`, key)
	again.want(t, http.StatusOK, true)
	if again.body != r.body || again.Header.Get("Content-Type") != "application/json" ||
		again.Header.Get("Content-Length") != strconv.Itoa(len(r.body)) {
		t.Errorf("replay: %s %v", again.body, again.Header)
	}
	if fence := again.Header.Get(FenceHeader); fence == "" || fence != r.Header.Get(FenceHeader) {
		t.Errorf("fence %q, first %q", fence, r.Header.Get(FenceHeader))
	}
	s.wantRuns(1)
}

func TestRequestsThatPass(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Write(body)
	}, Unscoped())
	for _, method := range []string{"GET", "DELETE", "PUT", "OPTIONS"} {
		s.do(method, "/", "", key).want(t, 200, false)
		s.do(method, "/", "", key).want(t, 200, false)
	}
	s.wantRuns(8)
	if r := s.post("/", "hello"); r.body != "hello" {
		t.Errorf("without a key: %q", r.body)
	}
	s.wantRuns(9)
}

func TestRequireKey(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, Unscoped(), RequireKey())
	s.post("/", "").wantProblem(t, 400, "key-required")
	s.wantRuns(0)
}

func TestMismatch(t *testing.T) {
	for name, tc := range map[string]struct {
		preset Option
		status int
	}{"IETF": {IETF(), 422}, "Stripe": {Stripe(), 400}, "Webhook": {Webhook(), 422}} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(http.ResponseWriter, *http.Request) {}, tc.preset, Unscoped())
			s.post("/a", "1", key).want(t, 200, false)
			s.post("/a", "2", key).wantProblem(t, tc.status, "mismatch")
			s.post("/a", "1", key).want(t, 200, true)
			s.wantRuns(1)
		})
	}
}

// I14: the client closes its socket in the middle of the handler.
func TestI14ClientGoesAway(t *testing.T) {
	g := newGate(t)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		g.wait()
		if r.Context().Err() != nil {
			t.Error("the handler's context ended with its client")
		}
		w.Header().Set("Location", "/charges/1")
		w.WriteHeader(http.StatusCreated)
	}, IETF(), Unscoped())
	done := make(chan reply, 1)
	go func() { done <- s.post("/charges", "", key) }()
	<-g.arrived
	s.CloseClientConnections()
	if r := <-done; r.err == nil {
		t.Fatal("the first client got an answer")
	}
	g.release()
	deadline := time.Now().Add(10 * time.Second)
	for {
		r := s.post("/charges", "", key)
		if r.StatusCode == http.StatusCreated {
			r.want(t, http.StatusCreated, true)
			if r.Header.Get("Location") != "/charges/1" {
				t.Errorf("Location %q", r.Header.Get("Location"))
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %d", r.StatusCode)
		}
		time.Sleep(5 * time.Millisecond)
	}
	s.wantRuns(1)
}
