package redfencehttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redfence/redfence"
)

// The order of answers: whatever else is true of an error, the first line of
// the table that it matches is what the client is told.
func TestOrderOfAnswers(t *testing.T) {
	want := []struct {
		status int
		name   string
		retry  bool
	}{
		{400, "bad-key", false}, {400, "key-required", false}, {403, "no-scope", false}, {400, "unreadable", false},
		{413, "request-too-large", false}, {422, "mismatch", false}, {409, "response-not-replayable", false}, {409, "expired", false},
		{409, "in-flight", true}, {409, "outcome-unknown", false}, {503, "outcome-unknown", false}, {503, "overloaded", true},
		{503, "overloaded", true}, {503, "unavailable", true}, {503, "unavailable", true},
	}
	if len(want) != len(answers) {
		t.Fatalf("%d answers, want %d", len(answers), len(want))
	}
	mw, err := New(serveEngine(t), IETF(), Unscoped())
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		later := errors.Join(errors.New("canary"), a.when)
		for _, b := range answers[i+1:] {
			later = errors.Join(b.when, later)
		}
		w := newWriter()
		mw.base.refuse(w, fmt.Errorf("canary: %w", later))
		var got problem
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if w.Code != want[i].status || !strings.HasSuffix(got.Type, "#"+want[i].name) || got.Status != w.Code {
			t.Errorf("%v: %d %+v, want %d %s", a.when, w.Code, got, want[i].status, want[i].name)
		}
		if retry := w.Header().Get("Retry-After"); (retry != "") != want[i].retry {
			t.Errorf("%v: Retry-After %q", a.when, retry)
		}
		if strings.Contains(w.Body.String(), "canary") {
			t.Errorf("%v: shows the error's text", a.when)
		}
	}
}

// What nobody has thought of cannot be decided now, and is never a success.
func TestEveryOtherErrorIsUndecided(t *testing.T) {
	for _, err := range []error{errors.New("new"), context.DeadlineExceeded, &redfence.StoredError{Text: "declined"}} {
		a := answerTo(err)
		if a.name != "undecided" || a.status(nil) != http.StatusServiceUnavailable || !a.retry {
			t.Errorf("%v: %+v", err, a)
		}
	}
}

// In a request with several things wrong, the order of the documentation.
func TestOrderOfChecks(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), RequireKey(), MaxRequest(10),
		Scope(func(r *http.Request) (string, error) {
			if r.URL.Path == "/nobody" {
				return "", errors.New("no")
			}
			return "somebody", nil
		}))
	large := strings.Repeat("x", 11)
	s.post("/nobody", large, "Idempotency-Key: a b").wantProblem(t, 400, "bad-key")
	s.post("/nobody", large).wantProblem(t, 400, "key-required")
	s.post("/nobody", large, key).wantProblem(t, 403, "no-scope")
	s.post("/", large, key).wantProblem(t, 413, "request-too-large")
	s.post("/", "x", key).want(t, 200, false)
	s.post("/", "y", key).wantProblem(t, 422, "mismatch")
	s.post("/", "x", key).want(t, 200, true)
	s.wantRuns(1)
}
