package redfencehttp

import (
	"net/http"
	"testing"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
)

var done = []byte("done")

// nowhere is a response that nobody reads.
type nowhere struct{ h http.Header }

func (n nowhere) Header() http.Header         { return n.h }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

func benchmark(b *testing.B, headers ...string) (http.Handler, *http.Request) {
	b.Helper()
	engine := newEngine(b, fallback.NewMemory(), func(c *redfence.Config) { c.NearCache = 32 << 20 })
	mw, err := New(engine, IETF(), Unscoped())
	if err != nil {
		b.Fatal(err)
	}
	h := mw.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(done) }))
	return h, newRequest("POST", "/charges", "", headers...)
}

// A request without a key: at most 1 µs and no allocation.
func BenchmarkWithoutKey(b *testing.B) {
	h, r := benchmark(b)
	w := nowhere{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}

// A replay from the near cache: at most 20 µs.
func BenchmarkReplayNear(b *testing.B) {
	h, r := benchmark(b, key)
	h.ServeHTTP(nowhere{http.Header{}}, r)
	b.ReportAllocs()
	for b.Loop() {
		w := nowhere{make(http.Header, 8)}
		h.ServeHTTP(w, r)
		if w.h.Get(ReplayedHeader) == "" {
			b.Fatal("not a replay")
		}
	}
}

// The bound on allocations of the path without a key.
func TestWithoutKeyAllocatesNothing(t *testing.T) {
	mw, err := New(serveEngine(t), IETF(), Unscoped())
	if err != nil {
		t.Fatal(err)
	}
	h := mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := nowhere{http.Header{}}, newRequest("POST", "/charges", "")
	if n := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
