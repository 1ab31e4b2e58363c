package instance

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/fallback"
)

// TestAnswersNameTheirExecution calls one instance and compares its answers
// with what the recorder holds.
func TestAnswersNameTheirExecution(t *testing.T) {
	began := time.Now()
	rec, err := recorder.New(filepath.Join(t.TempDir(), history.EffectsFile), func() time.Duration { return time.Since(began) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rec.Close() }()
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = client.Close() }()
	routes := &Routes{}
	eng, err := redfence.New(t.Context(), redfence.Config{
		Nodes: []redis.UniversalClient{client}, Ledger: fallback.NewMemory(), Observer: routes,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = eng.Close(t.Context()) }()
	service := &Service{Name: "it", Recorder: recorder.NewClient(rec.URL()), Routes: routes}
	handler, err := service.Handler(eng)
	if err != nil {
		t.Fatal(err)
	}
	post := func(key string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/work", strings.NewReader(`{}`))
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	one, again, other := post("one"), post("one"), post("other")
	if one.Code != http.StatusOK || one.Body.String() != again.Body.String() || one.Body.String() == other.Body.String() {
		t.Errorf("answers %d %q, %q, %q", one.Code, one.Body, again.Body, other.Body)
	}
	var kinds []string
	for _, e := range rec.Effects() {
		if e.Key == "one" {
			kinds = append(kinds, e.Kind)
			if !strings.Contains(one.Body.String(), e.Execution) || e.Route != "primary" || e.Fence == 0 || e.Attempt != 1 || e.Instance != "it" {
				t.Errorf("effect %+v of answer %q", e, one.Body)
			}
		}
	}
	if got := strings.Join(kinds, " "); got != "start effect end" {
		t.Errorf("effects: %s", got)
	}
}
