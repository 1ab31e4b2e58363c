package redfencehttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/redfence/redfence"
)

var (
	errBadKey      = errors.New("bad key")
	errKeyRequired = errors.New("key required")
	errNoScope     = errors.New("no scope")
	errUnreadable  = errors.New("body unreadable")
	errTooLarge    = errors.New("request too large")
	errScopeBusy   = errors.New("too many requests of one scope")
	errCutShort    = errors.New("the handler returned without an answer after its deadline")
)

// An answer is how one error is told to the client.
type answer struct {
	when   error
	name   string // ends the problem's type; stable
	status func(*settings) int
	title  string
	// retry: Retry-After is sent.
	retry bool
}

// answers is the order in which errors are told: the first that matches. What
// is not listed cannot be decided now.
var answers = []answer{
	{errBadKey, "bad-key", always(http.StatusBadRequest), "The idempotency key is not valid", false},
	{errKeyRequired, "key-required", always(http.StatusBadRequest), "An idempotency key is required", false},
	{errNoScope, "no-scope", always(http.StatusForbidden), "The caller of the request is not known", false},
	{errUnreadable, "unreadable", always(http.StatusBadRequest), "The request body could not be read", false},
	{errTooLarge, "request-too-large", always(http.StatusRequestEntityTooLarge), "The request body is too large", false},
	{redfence.ErrMismatch, "mismatch", func(s *settings) int { return s.mismatch }, "The idempotency key was used with another request", false},
	{redfence.ErrNotReplayable, "response-not-replayable", always(http.StatusConflict), "The request was processed; its response cannot be given again", false},
	{redfence.ErrExpired, "expired", func(s *settings) int { return s.expired }, "The idempotency key was used and never runs again", false},
	{redfence.ErrInProgress, "in-flight", func(s *settings) int { return s.inFlight }, "A request with this idempotency key is in progress", true},
	{redfence.ErrUnknownOutcome, "outcome-unknown", always(http.StatusConflict), "Nobody knows how a request with this idempotency key ended", false},
	{errCutShort, "outcome-unknown", always(http.StatusServiceUnavailable), "The request was not finished in time", false},
	{errScopeBusy, "overloaded", always(http.StatusServiceUnavailable), "Too many requests are in progress", true},
	{redfence.ErrOverloaded, "overloaded", always(http.StatusServiceUnavailable), "Too many requests are in progress", true},
	{redfence.ErrLedgerUnavailable, "unavailable", always(http.StatusServiceUnavailable), "The request cannot be protected right now", true},
	{redfence.ErrClosed, "unavailable", always(http.StatusServiceUnavailable), "The request cannot be protected right now", true},
}

// undecided tells every other error: nothing is known that a client could use.
var undecided = answer{nil, "undecided", always(http.StatusServiceUnavailable), "The outcome cannot be decided right now", true}

func always(status int) func(*settings) int { return func(*settings) int { return status } }

func answerTo(err error) answer {
	for _, a := range answers {
		if errors.Is(err, a.when) {
			return a
		}
	}
	return undecided
}

// problem is the body of application/problem+json (RFC 9457).
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
}

// refuse answers a request that was not run here. It shows nothing of the key,
// the scope or the error's text, except for mistakes in the key's syntax.
func (rt *route) refuse(w http.ResponseWriter, err error) {
	a := answerTo(err)
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	seconds := 0
	if a.retry {
		seconds = rt.times.retryAfter()
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if rt.describedBy != "" {
		h.Add("Link", "<"+rt.describedBy+`>; rel="describedby"`)
	}
	status := a.status(&rt.settings)
	if a.when == redfence.ErrInProgress && rt.busy != nil {
		write(w, status, "application/json", rt.busy(seconds))
		return
	}
	body, _ := json.Marshal(problem{Type: rt.problemBase + a.name, Title: a.title, Status: status, Detail: detail(err)}) // strings always marshal
	write(w, status, "application/problem+json", body)
}

// detail is what the client can do something about.
func detail(err error) string {
	for _, known := range []error{errKeySyntax, errKeyLength, errTwoKeys} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ""
}

func write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone
}
