package conformance

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Target is the server under test.
type Target struct {
	// URL is where App is reached through the layer under test.
	URL string
	// Client sends the requests. It should not retry or decode.
	Client *http.Client
	// Preset is what the server does where servers differ.
	Preset Preset
}

// Run runs the suite, each case as a test of its own.
func Run(t *testing.T, target Target) {
	for _, c := range Cases(target.Preset) {
		t.Run(c.Name, func(t *testing.T) { target.run(t, c) })
	}
}

// reporter is what a case needs of *testing.T.
type reporter interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// A session is one case on its way.
type session struct {
	t      reporter
	target Target
	id     string
	names  *strings.Replacer
	held   chan answer
}

type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

func (target Target) run(t reporter, c Case) {
	s := &session{
		t: t, target: target, id: rand.Text(), held: make(chan answer, 1),
		names: strings.NewReplacer("{key}", rand.Text(), "{other}", rand.Text()),
	}
	for i, step := range c.Steps {
		s.step(fmt.Sprintf("request %d", i+1), step)
	}
	if got := s.runs(); got != c.Runs {
		t.Errorf("the application ran %d times, want %d", got, c.Runs)
	}
}

func (s *session) step(name string, step Step) {
	s.t.Helper()
	switch {
	case step.Hold:
		go func() { s.held <- s.send(step) }()
		s.await()
		return
	case step.Release:
		s.plain("POST", "/release")
		step.Want.check(s.t, name, <-s.held)
	default:
		step.Want.check(s.t, name, s.send(step))
	}
}

// await waits until the application runs.
func (s *session) await() {
	deadline := time.Now().Add(holdFor)
	for s.runs() == 0 {
		if time.Now().After(deadline) {
			s.t.Fatalf("the held request has not reached the application")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *session) runs() (n int) {
	if _, err := fmt.Sscan(s.plain("GET", "/runs"), &n); err != nil {
		s.t.Fatalf("GET /runs: %v", err)
	}
	return n
}

func (s *session) plain(method, path string) string {
	r, err := http.NewRequest(method, s.target.URL+path+"?case="+s.id, nil)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	a := s.target.do(r)
	if a.err != nil {
		s.t.Fatalf("%s %s: %v", method, path, a.err)
	}
	return string(a.body)
}

func (s *session) send(step Step) answer {
	method := step.Method
	if method == "" {
		method = http.MethodPost
	}
	r, err := http.NewRequest(method, s.target.URL+"/do?case="+s.id+"&"+step.Query, strings.NewReader(step.Body))
	if err != nil {
		return answer{err: err}
	}
	// A body that cannot be rewound: http.Transport would send a request with
	// an Idempotency-Key again on its own when its connection breaks.
	r.Body, r.GetBody = io.NopCloser(strings.NewReader(step.Body)), nil
	for _, h := range step.Header {
		name, value, _ := strings.Cut(s.names.Replace(h), ": ")
		r.Header.Add(name, value)
	}
	return s.target.do(r)
}

func (target Target) do(r *http.Request) answer {
	resp, err := target.Client.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, body, err}
}

func (w Want) check(t reporter, name string, a answer) {
	t.Helper()
	if w.Status == 0 {
		return
	}
	if a.err != nil {
		t.Errorf("%s: %v", name, a.err)
		return
	}
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			t.Errorf("%s: "+format, append([]any{name}, args...)...)
		}
	}
	bad(a.status == w.Status, "status %d, want %d; body %.300s", a.status, w.Status, a.body)
	bad((a.header.Get("Idempotent-Replayed") == "true") == w.Replayed, "replayed is %v, want %v", !w.Replayed, w.Replayed)
	body := strings.ReplaceAll(w.Body, "{retry_after}", a.header.Get("Retry-After"))
	bad(body == "" || string(a.body) == body, "body %.300q, want %q", a.body, body)
	if w.RetryAfter {
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		bad(err == nil && seconds >= 1, "Retry-After is %q, want whole seconds from 1", a.header.Get("Retry-After"))
	}
	bad(w.Length == 0 || len(a.body) == w.Length, "%d bytes, want %d", len(a.body), w.Length)
	for _, h := range w.Header {
		if field, value, there := strings.Cut(h, ": "); there {
			bad(slices.Contains(a.header.Values(field), value), "%s is %q, want %q", field, a.header.Values(field), value)
		} else {
			bad(len(a.header.Values(h)) == 0, "%s is %q, want none", h, a.header.Values(h))
		}
	}
	bad(w.Problem == "" || isProblem(a, w.Problem), "want problem %s, got %s %.300s", w.Problem, a.header.Get("Content-Type"), a.body)
}

func isProblem(a answer, name string) bool {
	var p struct {
		Type   string `json:"type"`
		Status int    `json:"status"`
	}
	err := json.NewDecoder(bytes.NewReader(a.body)).Decode(&p)
	return err == nil && a.header.Get("Content-Type") == "application/problem+json" && p.Status == a.status && strings.HasSuffix(p.Type, name)
}
