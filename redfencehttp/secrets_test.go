package redfencehttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

func secrets(ids ...uint8) func(*redfence.Config) {
	return func(c *redfence.Config) {
		for _, id := range ids {
			c.Secrets = append(c.Secrets, redfence.Secret{ID: id, Key: bytes.Repeat([]byte{id}, 32)})
		}
		c.Seal = true
	}
}

// I27: after a rotation old records replay; under a wrong secret they do not,
// and the handler does not run.
func TestI27SealedBodies(t *testing.T) {
	ledger := fallback.NewMemory()
	handler := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "secret body") }
	old, redis := newEngineOn(t, ledger, secrets(1))
	s := serveOn(t, old, handler, IETF(), Unscoped())
	s.post("/", "", key).want(t, 200, false)
	if dump := redis.Dump(); strings.Contains(dump, "secret body") {
		t.Error("the body can be read in Redis")
	}
	rotated := serveOn(t, newEngine(t, ledger, secrets(2, 1)), handler, IETF(), Unscoped())
	if r := rotated.post("/", "", key); r.body != "secret body" {
		t.Errorf("after the rotation: %d %q", r.StatusCode, r.body)
	}
	rotated.wantRuns(0)
	wrong := serveOn(t, newEngine(t, ledger, secrets(3)), handler, IETF(), Unscoped())
	if r := wrong.post("/", "", key); r.StatusCode < 400 || strings.Contains(r.body, "secret body") {
		t.Errorf("under a wrong secret: %d %q", r.StatusCode, r.body)
	}
	wrong.wantRuns(0)
}

// observed collects events as text.
type observed struct {
	mu    sync.Mutex
	names map[string]int
	text  strings.Builder
}

func (o *observed) Observe(e observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names == nil {
		o.names = map[string]int{}
	}
	o.names[e.Name()]++
	fmt.Fprintf(&o.text, "%s %+v\n", e.Name(), e)
}

func (o *observed) count(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.names[name]
}

// I35: a record in Redis that was forged or has a flipped bit is a miss,
// counted, and the ledger answers.
func TestI35ForgedRecord(t *testing.T) {
	for name, forge := range map[string]func(record []byte) []byte{
		"another body":    func(r []byte) []byte { return bytes.Replace(r, []byte("genuine"), []byte("forgery"), 1) },
		"a flipped bit":   func(r []byte) []byte { r[20] ^= 1; return r },
		"without its tag": func(r []byte) []byte { r[2] = 0; return r[:len(r)-32] },
	} {
		t.Run(name, func(t *testing.T) {
			seen := &observed{}
			engine, redis := newEngineOn(t, fallback.NewMemory(), func(c *redfence.Config) {
				c.Secrets = []redfence.Secret{{ID: 1, Key: make([]byte, 32)}}
				c.Observer = seen
			})
			s := serveOn(t, engine, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "genuine") }, IETF(), Unscoped())
			s.post("/", "", key).want(t, 200, false)
			cached := cachedKey(t, redis)
			record, _ := redis.Get(cached)
			redis.Set(cached, string(forge([]byte(record))))
			r := s.post("/", "", key)
			r.want(t, 200, true)
			if r.body != "genuine" {
				t.Errorf("answered %q", r.body)
			}
			if n := seen.count("cache_unverified"); n != 1 {
				t.Errorf("%d counted", n)
			}
			s.wantRuns(1)
		})
	}
}

// cachedKey waits for a cached record; puts are asynchronous.
func cachedKey(t *testing.T, redis *miniredis.Miniredis) string {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		for _, name := range redis.Keys() {
			if strings.HasSuffix(name, ":c") {
				return name
			}
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no record was cached")
	return ""
}

// I37: a canary in key, scope, query and body appears in no answer but the
// handler's own, in no event and in no error's text.
func TestI37NothingIsShown(t *testing.T) {
	const canary = "canary-0123456789-in-a-key"
	seen := &observed{}
	link := &cable{Ledger: fallback.NewMemory()}
	engine := newEngine(t, link, func(c *redfence.Config) { c.Observer = seen })
	g := newGate(t)
	s := serveOn(t, engine, func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("boom")
		case "/slow":
			g.wait()
		}
	}, IETF(), Scope(func(r *http.Request) (string, error) {
		if r.URL.Path == "/nobody" {
			return "", fmt.Errorf("no such tenant: %s", canary)
		}
		return canary + "-scope", nil
	}), MaxRequest(1000))
	body := `{"card":"` + canary + `"}`
	ask := func(path, id, body string) reply {
		r := s.post(path+"?q="+canary, body, `Idempotency-Key: "`+id+canary+`"`)
		if text := fmt.Sprint(r.Header, r.body); strings.Contains(text, canary) {
			t.Errorf("%s: the answer shows the canary: %s", path, text)
		}
		return r
	}
	ask("/ok", "1", body)
	ask("/ok", "1", body).want(t, 200, true)
	ask("/ok", "1", "other").want(t, 422, false)
	ask("/ok", "2", strings.Repeat(canary, 100)).want(t, 413, false)
	ask("/ok", "ä", body).want(t, 400, false)
	ask("/nobody", "3", body).want(t, 403, false)
	ask("/panic", "4", body)
	ask("/panic", "4", body).want(t, 409, false)
	go ask("/slow", "5", body)
	<-g.arrived
	ask("/slow", "5", body).want(t, 409, false)
	g.release()
	link.cut.Store(true)
	ask("/ok", "6", body).want(t, 503, false)
	link.cut.Store(false)

	seen.mu.Lock()
	defer seen.mu.Unlock()
	if seen.names["do_finished"] == 0 {
		t.Error("no events were seen")
	}
	if text := seen.text.String(); strings.Contains(text, canary) {
		t.Errorf("an event shows the canary:\n%s", text)
	}
}

func TestProblemsAreWellFormed(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), Unscoped(), RequireKey(),
		Problems("https://errors.example/", "https://docs.example/idempotency"))
	r := s.post("/", "")
	var got problem
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "https://errors.example/key-required" || got.Status != 400 || got.Title == "" {
		t.Errorf("got %+v", got)
	}
	if link := r.Header.Get("Link"); link != `<https://docs.example/idempotency>; rel="describedby"` {
		t.Errorf("Link %q", link)
	}
	if r.Header.Get("Cache-Control") != "no-store" {
		t.Error("problems must not be cached")
	}
}
