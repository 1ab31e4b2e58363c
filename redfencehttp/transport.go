package redfencehttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A Transport is a http.RoundTripper that gives requests an idempotency key and
// sends them again, under the same key, until it is known how they ended. It
// is safe for concurrent use.
//
// It sends again after network errors and after 409 (with Retry-After: in
// flight), 425, 429, 502, 503 and 504, and only if the body can be rewound
// (http.Request.GetBody; http.NewRequest sets it for the usual kinds). 422 and
// every other status are answers. It waits with full jitter, doubling, and at
// least as long as Retry-After says. When it gives up it returns the last
// response or error.
//
// # Caveats
//
// The key of a request that brings none is drawn at random and is gone with
// the process: give KeyFunc to send the same one after a restart. A request
// that follows a redirect is another request.
type Transport struct {
	base     http.RoundTripper
	header   string
	methods  map[string]bool
	key      func(*http.Request) (string, error)
	attempts int
	elapsed  time.Duration
	first    time.Duration
	longest  time.Duration
}

// A TransportOption changes a Transport.
type TransportOption interface{ applyTransport(*Transport) }

type transportOption func(*Transport)

func (f transportOption) applyTransport(t *Transport) { f(t) }

// KeyFunc makes the key of a request that brings none, from the business id of
// what it does, so that a restarted process sends the same one. An empty key
// sends the request once, without. Defaults to a random UUID of version 7.
func KeyFunc(key func(*http.Request) (string, error)) TransportOption {
	return transportOption(func(t *Transport) { t.key = key })
}

// KeyHeader is the name that carries the key. Defaults to Idempotency-Key.
func KeyHeader(name string) TransportOption {
	return transportOption(func(t *Transport) { t.header = http.CanonicalHeaderKey(name) })
}

// KeyMethods are the methods that get a key. Defaults to POST and PATCH.
func KeyMethods(methods ...string) TransportOption {
	return transportOption(func(t *Transport) { t.methods = setOf(methods) })
}

// Attempts bounds how often a request is sent. Defaults to 5; 1 never sends
// again.
func Attempts(n int) TransportOption {
	return transportOption(func(t *Transport) { t.attempts = max(1, n) })
}

// MaxElapsed bounds the time until the last attempt begins; the request's own
// context bounds everything. Defaults to 2 min.
func MaxElapsed(d time.Duration) TransportOption {
	return transportOption(func(t *Transport) { t.elapsed = d })
}

// Backoff sets the longest first pause, which doubles each time, and the
// longest of all. Defaults to 100 ms and 10 s.
func Backoff(first, longest time.Duration) TransportOption {
	return transportOption(func(t *Transport) { t.first, t.longest = first, longest })
}

// NewTransport returns a transport on top of another one, or of
// http.DefaultTransport when base is nil.
func NewTransport(base http.RoundTripper, opts ...TransportOption) *Transport {
	if base == nil {
		base = http.DefaultTransport
	}
	t := &Transport{
		base: base, header: "Idempotency-Key", methods: setOf([]string{http.MethodPost, http.MethodPatch}),
		key: randomKey, attempts: 5, elapsed: 2 * time.Minute, first: 100 * time.Millisecond, longest: 10 * time.Second,
	}
	for _, o := range opts {
		o.applyTransport(t)
	}
	return t
}

// Client returns a client on NewTransport(nil, opts…).
func Client(opts ...TransportOption) *http.Client {
	return &http.Client{Transport: NewTransport(nil, opts...)}
}

func randomKey(*http.Request) (string, error) {
	id, err := uuid.NewV7()
	return id.String(), err
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	value, err := t.fieldValue(r)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	if value == "" {
		return t.base.RoundTrip(r)
	}
	rewindable := r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
	began := time.Now()
	for n := 1; ; n++ {
		attempt, err := t.attempt(r, n, value)
		if err != nil {
			return nil, err
		}
		resp, err := t.base.RoundTrip(attempt)
		if !rewindable || n >= t.attempts || !unfinished(r.Context(), resp, err) {
			return resp, err
		}
		pause := t.pause(n) + retryAfter(resp)
		if !t.fits(r.Context(), began, pause) {
			return resp, err
		}
		discard(resp)
		if err := sleep(r.Context(), pause); err != nil {
			return nil, err
		}
	}
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close() // the contract of RoundTrip; nothing was read
	}
}

// fieldValue is the key as the header carries it; empty when the request is
// sent as it is.
func (t *Transport) fieldValue(r *http.Request) (string, error) {
	if given := r.Header.Get(t.header); given != "" {
		return given, nil
	}
	if !t.methods[r.Method] {
		return "", nil
	}
	key, err := t.key(r)
	if err != nil {
		return "", fmt.Errorf("redfencehttp: make the idempotency key: %w", err)
	}
	if len(key) > maxKey {
		return "", fmt.Errorf("redfencehttp: make the idempotency key: %w", errKeyLength)
	}
	return quoted(key)
}

// quoted leaves a bare key as it is and makes a structured-field string of any
// other.
func quoted(key string) (string, error) {
	if isBare(key) {
		return key, nil
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", fmt.Errorf("redfencehttp: make the idempotency key: %w", errKeySyntax)
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`, nil
}

// attempt returns the request to send: a copy, with a fresh body from the
// second one on.
func (t *Transport) attempt(r *http.Request, n int, value string) (*http.Request, error) {
	attempt := r.Clone(r.Context())
	attempt.Header.Set(t.header, value)
	if n == 1 || r.GetBody == nil {
		return attempt, nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, fmt.Errorf("redfencehttp: rewind the body: %w", err)
	}
	attempt.Body = body
	return attempt, nil
}

// unfinished says whether it is still open how the request ended.
func unfinished(ctx context.Context, resp *http.Response, err error) bool {
	if err != nil {
		return ctx.Err() == nil && !errors.Is(err, context.Canceled)
	}
	switch resp.StatusCode {
	case http.StatusConflict:
		return resp.Header.Get("Retry-After") != ""
	case http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// pause is random between nothing and a bound that doubles.
func (t *Transport) pause(n int) time.Duration {
	bound := t.longest
	if shift := n - 1; shift < 32 && t.first<<shift < t.longest {
		bound = t.first << shift
	}
	if bound <= 0 {
		return 0
	}
	return rand.N(bound)
}

// retryAfter reads seconds or a date (RFC 9110, 10.2.3).
func retryAfter(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(seconds, 0), 1<<30)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// fits says whether another attempt can begin in time.
func (t *Transport) fits(ctx context.Context, began time.Time, pause time.Duration) bool {
	if time.Since(began)+pause > t.elapsed {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Until(deadline) > pause
}

// discard reads a short body to its end, so that the connection can be used
// again.
func discard(resp *http.Response) {
	if resp == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
