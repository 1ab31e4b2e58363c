package redfencehttp

import (
	"io"
	"net/http"
	"testing"

	"github.com/redfence/redfence/fallback"
)

// I20, across a fail-over: one key under two tenants, recorded on the primary
// route, replayed on the fallback route, and the other way round.
func TestI20ScopesAcrossAFailOver(t *testing.T) {
	engine, redis := newEngineOn(t, fallback.NewMemory())
	s := serveOn(t, engine, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "for "+r.Header.Get("X-Tenant"))
	}, IETF(), Scope(func(r *http.Request) string { return r.Header.Get("X-Tenant") }))
	round := func(id string, replayed bool) {
		t.Helper()
		for _, tenant := range []string{"A", "B", "lock", "a:b", "{x}"} {
			r := s.post("/", "", "Idempotency-Key: "+id, "X-Tenant: "+tenant)
			r.want(t, 200, replayed)
			if r.body != "for "+tenant {
				t.Errorf("%q got %q", tenant, r.body)
			}
		}
	}
	round("before", false)
	redis.Close()
	round("before", true)
	round("during", false)
	round("during", true)
	if err := redis.Restart(); err != nil {
		t.Fatal(err)
	}
	redis.FlushAll()
	round("before", true)
	round("during", true)
	s.wantRuns(10)
}
