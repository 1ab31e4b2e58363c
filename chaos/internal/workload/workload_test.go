package workload

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redfence/redfence/chaos/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service answers like an instance; the first request of every other key
// fails.
type service struct {
	mu   sync.Mutex
	seen map[string]int
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	s.seen[key]++
	n := s.seen[key]
	s.mu.Unlock()
	if n == 1 && key[len(key)-1]%2 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Redfence-Fence", "3")
	if n > 2 {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	_, _ = fmt.Fprintf(w, `{"key":%q,"execution":"x"}`, key)
}

func newLoad(t *testing.T) (*Load, *service) {
	t.Helper()
	s := &service{seen: map[string]int{}}
	one, two := httptest.NewServer(s), httptest.NewServer(s)
	began := time.Now()
	l := New(Options{
		Instances: []string{one.URL, two.URL}, Seed: 3, Clock: func() time.Duration { return time.Since(began) },
		KeysPerSecond: 200, LatePerSecond: 200,
	})
	t.Cleanup(func() { l.Close(); one.Close(); two.Close() })
	return l, s
}

func TestEveryKeyGetsAnAnswerAndIsAskedAgain(t *testing.T) {
	l, s := newLoad(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		defer cancel()
		for keys := 0; keys < 40 && ctx.Err() == nil; keys, _, _ = l.Counts() {
			pause(ctx, 5*time.Millisecond)
		}
	}()
	l.Run(ctx)
	keys, requests, answered := l.Counts()
	if keys < 40 || len(l.Acknowledged()) != keys || answered >= requests {
		t.Errorf("%d keys, %d acknowledged, %d requests, %d answered", keys, len(l.Acknowledged()), requests, answered)
	}
	l.Final(t.Context())
	kinds := map[string]int{}
	for _, op := range l.Ops() {
		kinds[op.Kind]++
		if op.OK() && (op.Execution != "x" || op.Fence != "3" || !op.Durable || op.Got < op.Sent) {
			t.Fatalf("op %+v", op)
		}
	}
	for _, kind := range []string{history.Fresh, history.Duplicate, history.Late} {
		if kinds[kind] == 0 {
			t.Errorf("no request of kind %s", kind)
		}
	}
	if kinds[history.Final] != keys {
		t.Errorf("%d final requests for %d keys", kinds[history.Final], keys)
	}
	if len(s.seen) != keys {
		t.Errorf("the service saw %d keys, %d were begun", len(s.seen), keys)
	}
}

func TestPlansAreDecidedByTheSeed(t *testing.T) {
	one, _ := newLoad(t)
	two, _ := newLoad(t)
	for range 50 {
		if a, b := fmt.Sprint(one.draw()), fmt.Sprint(two.draw()); a != b {
			t.Fatalf("the same seed planned %s and %s", a, b)
		}
	}
}

func TestRequestThatIsCutOffIsNoAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = fmt.Fprint(w, "{")
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	l := New(Options{Instances: []string{server.URL}, Clock: func() time.Duration { return 0 }})
	defer l.Close()
	if op := l.Probe(t.Context(), 0); op.Status != 0 || op.Err == "" || op.OK() {
		t.Errorf("op %+v, want no answer", op)
	}
}
