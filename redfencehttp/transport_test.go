package redfencehttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A script is a transport that answers as told and notes what it was sent.
type script struct {
	steps []step
	sent  []string // key and body
	at    []time.Time
}

type step struct {
	status     int
	retryAfter string
	err        error
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		body = string(b)
	}
	s.sent = append(s.sent, r.Header.Get("Idempotency-Key")+" "+body)
	s.at = append(s.at, time.Now())
	next := s.steps[min(len(s.sent), len(s.steps))-1]
	if next.err != nil {
		return nil, next.err
	}
	h := http.Header{}
	if next.retryAfter != "" {
		h.Set("Retry-After", next.retryAfter)
	}
	return &http.Response{StatusCode: next.status, Header: h, Body: io.NopCloser(strings.NewReader("answer"))}, nil
}

func do(t *testing.T, s *script, method string, body io.Reader, opts ...TransportOption) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://x/", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := NewTransport(s, opts...).RoundTrip(r)
	if err != nil {
		return 0, err
	}
	if text, err := io.ReadAll(resp.Body); string(text) != "answer" || err != nil {
		t.Errorf("the body of the answer was touched: %q %v", text, err)
	}
	if r.Header.Get("Idempotency-Key") != "" {
		t.Error("the caller's request was changed")
	}
	return resp.StatusCode, nil
}

func TestTransportRetries(t *testing.T) {
	errReset := errors.New("connection reset")
	for name, tc := range map[string]struct {
		steps  []step
		status int
		err    error
		sent   int
	}{
		"answer":          {[]step{{status: 201}}, 201, nil, 1},
		"network error":   {[]step{{err: errReset}, {status: 200}}, 200, nil, 2},
		"in flight":       {[]step{{status: 409, retryAfter: "1"}, {status: 200}}, 200, nil, 2},
		"other conflict":  {[]step{{status: 409}}, 409, nil, 1},
		"mismatch":        {[]step{{status: 422, retryAfter: "1"}}, 422, nil, 1},
		"bad request":     {[]step{{status: 400}}, 400, nil, 1},
		"server error":    {[]step{{status: 500}}, 500, nil, 1},
		"425 429 502":     {[]step{{status: 425}, {status: 429}, {status: 502}, {status: 200}}, 200, nil, 4},
		"503 504":         {[]step{{status: 503}, {status: 504}, {status: 200}}, 200, nil, 3},
		"gives up":        {[]step{{status: 503}}, 503, nil, 5},
		"gives up, error": {[]step{{err: errReset}}, 0, errReset, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{steps: tc.steps}
				status, err := do(t, s, "POST", strings.NewReader("body"))
				if status != tc.status || !errors.Is(err, tc.err) {
					t.Errorf("got %d, %v", status, err)
				}
				if len(s.sent) != tc.sent {
					t.Errorf("sent %d times", len(s.sent))
				}
				if key, body, _ := strings.Cut(s.sent[0], " "); len(key) != 36 || key[14] != '7' || body != "body" {
					t.Errorf("sent %q", s.sent[0])
				}
				if len(slices.Compact(s.sent)) != 1 {
					t.Errorf("attempts differ: %q", s.sent)
				}
			})
		})
	}
}

func TestTransportPassesOthers(t *testing.T) {
	s := &script{steps: []step{{status: 503}}}
	do(t, s, "GET", nil)
	do(t, s, "POST", strings.NewReader("x"), KeyFunc(func(*http.Request) (string, error) { return "", nil }))
	if want := []string{" ", " x"}; !slices.Equal(s.sent, want) {
		t.Errorf("sent %q", s.sent)
	}
}

func TestTransportKeys(t *testing.T) {
	for key, want := range map[string]string{"order-1": "order-1", "order 1": `"order 1"`, `a"\`: `"a\"\\"`} {
		s := &script{steps: []step{{status: 200}}}
		do(t, s, "POST", nil, KeyFunc(func(*http.Request) (string, error) { return key, nil }))
		if s.sent[0] != want+" " {
			t.Errorf("%q was sent as %q", key, s.sent[0])
		}
		if got, err := fieldKey(want); got != key || err != nil {
			t.Errorf("the server reads %q, %v", got, err)
		}
	}
	for _, bad := range []string{"ä", "\n", strings.Repeat("x", 256)} {
		if _, err := do(t, &script{}, "POST", nil, KeyFunc(func(*http.Request) (string, error) { return bad, nil })); err == nil {
			t.Errorf("%q was sent", bad)
		}
	}
	s := &script{steps: []step{{status: 200}}}
	r, _ := http.NewRequest("DELETE", "http://x/", nil)
	r.Header.Set("Idempotency-Key", "mine")
	if _, err := NewTransport(s).RoundTrip(r); err != nil || s.sent[0] != "mine " {
		t.Errorf("the caller's key: %q, %v", s.sent, err)
	}
}

func TestTransportWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		date := time.Now().Add(30 * time.Second).UTC().Format(http.TimeFormat)
		s := &script{steps: []step{{status: 503, retryAfter: "7"}, {status: 503, retryAfter: date}, {status: 200}}}
		if status, err := do(t, s, "POST", nil); status != 200 || err != nil {
			t.Fatal(status, err)
		}
		if wait := s.at[1].Sub(s.at[0]); wait < 7*time.Second || wait > 7100*time.Millisecond {
			t.Errorf("waited %v for Retry-After: 7", wait)
		}
		if at := s.at[2].Sub(s.at[0]); at < 29*time.Second || at > 31*time.Second {
			t.Errorf("waited %v for a date", at)
		}
	})
}

func TestTransportBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{steps: []step{{status: 503, retryAfter: "3600"}}}
		began := time.Now()
		if status, _ := do(t, s, "POST", nil); status != 503 || len(s.sent) != 1 || time.Since(began) != 0 {
			t.Errorf("%d after %d attempts and %v: an hour does not fit", status, len(s.sent), time.Since(began))
		}
		s = &script{steps: []step{{status: 503}}}
		do(t, s, "POST", nil, Attempts(1000), Backoff(time.Second, 10*time.Second), MaxElapsed(time.Minute))
		if took := time.Since(began); took > time.Minute || len(s.sent) < 5 {
			t.Errorf("%d attempts in %v", len(s.sent), took)
		}
		s = &script{steps: []step{{status: 503}}}
		if do(t, s, "POST", io.MultiReader(strings.NewReader("x"))); len(s.sent) != 1 {
			t.Error("a body that cannot be rewound was sent again")
		}
	})
}

func TestTransportHonoursContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := &script{steps: []step{{status: 503, retryAfter: "60"}}}
		r, _ := http.NewRequestWithContext(ctx, "POST", "http://x/", nil)
		go func() { time.Sleep(time.Second); cancel() }()
		began := time.Now()
		_, err := NewTransport(s).RoundTrip(r)
		if !errors.Is(err, context.Canceled) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// A server that drops the reply after the handler ran: the client's retries end
// with the response of the one execution.
func TestTransportAgainstDroppedReplies(t *testing.T) {
	var requests atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done") }, Webhook(), Unscoped())
	protected := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) <= 2 {
			protected.ServeHTTP(newWriter(), r)
			panic(http.ErrAbortHandler)
		}
		protected.ServeHTTP(w, r)
	})
	client := &http.Client{Transport: NewTransport(s.Client().Transport, Backoff(time.Millisecond, time.Millisecond))}
	resp, err := client.Post(s.URL, "text/plain", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); string(text) != "done" || resp.Header.Get(ReplayedHeader) != "true" {
		t.Errorf("%q %v", text, resp.Header)
	}
	if requests.Load() < 3 {
		t.Errorf("%d requests", requests.Load())
	}
	s.wantRuns(1)
}
