package redfencehttp

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence"
)

// I15: panic, http.Error, no write at all, http.ErrAbortHandler, a return after
// the deadline: each ends in the state that the policy names.
func TestI15HowHandlersEnd(t *testing.T) {
	endings := map[string]http.HandlerFunc{
		"panic":    func(http.ResponseWriter, *http.Request) { panic("boom") },
		"abort":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"error":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) },
		"silence":  func(http.ResponseWriter, *http.Request) {},
		"deadline": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"late":     func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done(); w.WriteHeader(201) },
		"4xx":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 404) },
		"401":      func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 401) },
	}
	const aborted = 0
	type want struct {
		first, second int
		replayed      bool
		runs          int64
	}
	unknown := func(first int) want { return want{first, 409, false, 1} }
	stored := func(first, second int) want { return want{first, second, true, 1} }
	released := func(status int) want { return want{status, status, false, 2} }
	for name, tc := range map[string]struct {
		preset Option
		want   map[string]want
	}{
		"IETF": {IETF(), map[string]want{
			"panic": unknown(aborted), "abort": unknown(aborted), "error": unknown(500), "silence": stored(200, 200),
			"deadline": unknown(503), "late": stored(201, 201), "4xx": stored(404, 404), "401": released(401),
		}},
		"Stripe": {Stripe(), map[string]want{
			"panic": stored(aborted, 500), "abort": stored(aborted, 500), "error": stored(500, 500), "silence": stored(200, 200),
			"deadline": unknown(503), "late": stored(201, 201), "4xx": stored(404, 404), "401": released(401),
		}},
		"Webhook": {Webhook(), map[string]want{
			"panic": released(aborted), "abort": released(aborted), "error": released(500), "silence": stored(200, 200),
			"deadline": unknown(503), "late": stored(201, 201), "4xx": released(404), "401": released(401),
		}},
	} {
		for ending, w := range tc.want {
			t.Run(name+"/"+ending, func(t *testing.T) {
				s := serve(t, endings[ending], tc.preset, Unscoped(), Lease(100*time.Millisecond), MaxProcessing(100*time.Millisecond))
				first := s.post("/", "", key)
				if w.first == aborted {
					if first.err == nil {
						t.Errorf("first: %d, want an aborted connection", first.StatusCode)
					}
				} else {
					first.want(t, w.first, false)
				}
				second := s.post("/", "", key)
				if w.second == aborted {
					if second.err == nil {
						t.Errorf("second: %d, want an aborted connection", second.StatusCode)
					}
				} else {
					second.want(t, w.second, w.replayed)
				}
				if w.second == 409 && !strings.Contains(second.body, "#outcome-unknown") {
					t.Errorf("second: %s", second.body)
				}
				s.wantRuns(w.runs)
			})
		}
	}
}

// Outer recoverers still see the panic, by its value.
func TestI15OuterRecovererSeesThePanic(t *testing.T) {
	mw, err := New(serveEngine(t), Webhook(), Unscoped())
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []any{"boom", http.ErrAbortHandler, io.EOF} {
		var seen any
		func() {
			defer func() { seen = recover() }()
			h := mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(value) }))
			h.ServeHTTP(newWriter(), newRequest("POST", "/", "", key))
		}()
		if seen != value {
			t.Errorf("saw %v, want %v", seen, value)
		}
	}
}

// I16, first half: 70 KB replays in full.
func TestI16LargeResponseReplays(t *testing.T) {
	body := strings.Repeat("0123456789abcdef", 70<<10/16)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for chunk := range slices.Chunk([]byte(body), 1000) {
			w.Write(chunk)
		}
	}, IETF(), Unscoped())
	if r := s.post("/", "", key); r.body != body {
		t.Errorf("first: %d bytes", len(r.body))
	}
	r := s.post("/", "", key)
	r.want(t, 200, true)
	if r.body != body || r.ContentLength != int64(len(body)) {
		t.Errorf("replay: %d bytes, Content-Length %d", len(r.body), r.ContentLength)
	}
	s.wantRuns(1)
}

// I17: a cookie is not replayed, both links are, and one X-Request-Id.
func TestI17Headers(t *testing.T) {
	var requests int
	inner := func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Add("Set-Cookie", "session=secret")
		h.Add("Link", "</a>; rel=prev")
		h.Add("Link", "</b>; rel=next")
		h.Add("Connection", "X-Hop")
		h.Set("X-Hop", "1")
		h.Set("Www-Authenticate", "Basic")
		h.Set("X-Mine", "yes")
		h.Add("Vary", "Accept")
		h.Set("Date", "Thu, 01 Jan 1970 00:00:00 GMT")
		w.WriteHeader(http.StatusAccepted)
	}
	mw, err := New(serveEngine(t), IETF(), Unscoped())
	if err != nil {
		t.Fatal(err)
	}
	protected := mw.Wrap(http.HandlerFunc(inner))
	outer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("X-Request-Id", strconv.Itoa(requests))
		w.Header().Add("Vary", "Origin")
		protected.ServeHTTP(w, r)
	})
	first, again := newWriter(), newWriter()
	outer.ServeHTTP(first, newRequest("POST", "/", "", key))
	outer.ServeHTTP(again, newRequest("POST", "/", "", key))
	for name, want := range map[string][2][]string{
		"Set-Cookie":       {{"session=secret"}, nil},
		"Link":             {{"</a>; rel=prev", "</b>; rel=next"}, {"</a>; rel=prev", "</b>; rel=next"}},
		"X-Request-Id":     {{"1"}, {"2"}},
		"Vary":             {{"Origin", "Accept"}, {"Origin", "Accept"}},
		"X-Mine":           {{"yes"}, {"yes"}},
		"X-Hop":            {{"1"}, nil},
		"Connection":       {{"X-Hop"}, nil},
		"Www-Authenticate": {{"Basic"}, nil},
		"Date":             {{"Thu, 01 Jan 1970 00:00:00 GMT"}, nil}, // net/http adds a fresh one
		ReplayedHeader:     {nil, {"true"}},
	} {
		if got := first.Header()[name]; !slices.Equal(got, want[0]) {
			t.Errorf("first %s: %q", name, got)
		}
		if got := again.Header()[name]; !slices.Equal(got, want[1]) {
			t.Errorf("replay %s: %q", name, got)
		}
	}
}

// I18: recorded under gzip, replayed to a client that does not accept it.
func TestI18ContentEncoding(t *testing.T) {
	const plain = "a body that compresses, compresses, compresses"
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, plain)
	z.Close()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		w.Write(packed.Bytes())
	}, IETF(), Unscoped())
	s.post("/", "", key, "Accept-Encoding: gzip").want(t, 200, false)
	for accepts, wantPlain := range map[string]bool{
		"gzip": false, "br, gzip;q=0.5": false, "*": false, "GZIP": false,
		"identity": true, "gzip;q=0": true, "br": true, "gzip;q=0.0, *": true, "gzip;q=0, identity": true,
	} {
		r := s.post("/", "", key, "Accept-Encoding: "+accepts)
		r.want(t, 200, true)
		want, encoding := packed.String(), "gzip"
		if wantPlain {
			want, encoding = plain, ""
		}
		if r.body != want || r.Header.Get("Content-Encoding") != encoding || r.ContentLength != int64(len(want)) {
			t.Errorf("%q: %q, %d bytes, Content-Length %d", accepts, r.Header.Get("Content-Encoding"), len(r.body), r.ContentLength)
		}
	}
}

// Every client understands a body without a coding; not every one that says
// nothing understands gzip.
func TestI18NoAcceptEncoding(t *testing.T) {
	resp := redfence.Response{Header: map[string][]string{"Content-Encoding": {"identity"}}, Body: []byte("x")}
	if body, decoded, err := bodyFor(newRequest("POST", "/", ""), resp); string(body) != "x" || decoded || err != nil {
		t.Errorf("identity: %q %v %v", body, decoded, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, "plain")
	z.Close()
	resp = redfence.Response{Header: map[string][]string{"Content-Encoding": {"gzip"}}, Body: packed.Bytes()}
	if body, decoded, err := bodyFor(newRequest("POST", "/", ""), resp); string(body) != "plain" || !decoded || err != nil {
		t.Errorf("gzip: %q %v %v", body, decoded, err)
	}
}

func TestI18UndecodableIsNotReplayed(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "rot13")
		io.WriteString(w, "obql")
	}, IETF(), Unscoped())
	s.post("/", "", key, "Accept-Encoding: rot13").want(t, 200, false)
	s.post("/", "", key, "Accept-Encoding: rot13").want(t, 200, true)
	s.post("/", "", key, "Accept-Encoding: identity").wantProblem(t, 409, "response-not-replayable")
	s.wantRuns(1)
}

// I19: what is one key, and what is none.
func TestI19KeySyntax(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), Unscoped())
	s.post("/", "", `Idempotency-Key: "k"`).want(t, 200, false)
	for _, same := range [][]string{
		{"Idempotency-Key: k"}, {`Idempotency-Key: "k";a=1`}, {`X-Idempotency-Key: k`}, {"Idempotency-Key: k, k"},
		{"Idempotency-Key: k", `Idempotency-Key: "k"`}, {"Idempotency-Key: k", "X-Idempotency-Key: k"}, {"Idempotency-Key: \t k "},
		{`Idempotency-Key: "k" , k`},
	} {
		s.post("/", "", same...).want(t, 200, true)
	}
	s.wantRuns(1)
	for _, bad := range [][]string{
		{`Idempotency-Key: "unterminated`}, {"Idempotency-Key: a, b"}, {"Idempotency-Key: a", "X-Idempotency-Key: b"},
		{"Idempotency-Key: a", "Idempotency-Key: b"}, {"Idempotency-Key: " + strings.Repeat("x", 256)},
		{`Idempotency-Key: "` + strings.Repeat("x", 256) + `"`}, {"Idempotency-Key: ké"}, {`Idempotency-Key: "ké"`},
		{"Idempotency-Key: "}, {`Idempotency-Key: ""`}, {"Idempotency-Key: a b"}, {`Idempotency-Key: a"b`}, {"Idempotency-Key: a;b"},
		{`Idempotency-Key: "k" x`}, {`Idempotency-Key: "k";`}, {"Idempotency-Key: k,"}, {`Idempotency-Key: "k\x"`},
	} {
		s.post("/", "", bad...).wantProblem(t, 400, "bad-key")
	}
	s.wantRuns(1)
	s.post("/", "", "Idempotency-Key: "+strings.Repeat("x", 255)).want(t, 200, false)
	s.post("/", "", `Idempotency-Key: "a \"quoted\", \\ one"`).want(t, 200, false)
	s.wantRuns(3)
}

// I20: one key under two tenants, whatever they are called.
func TestI20ScopesNeverMeet(t *testing.T) {
	tenants := []string{"A", "B", "a", "lock", "do", "a:b", "{x}", "a/b", "ä"}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "for "+r.Header.Get("X-Tenant"))
	}, IETF(), Scope(func(r *http.Request) string { return r.Header.Get("X-Tenant") }))
	for _, replayed := range []bool{false, true} {
		for _, tenant := range tenants {
			r := s.post("/", "", key, "X-Tenant: "+tenant)
			r.want(t, 200, replayed)
			if r.body != "for "+tenant {
				t.Errorf("%q got %q", tenant, r.body)
			}
		}
	}
	s.wantRuns(int64(len(tenants)))
}

func TestScopeThatFails(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(),
		Scope(func(*http.Request) (string, error) { return "", fmt.Errorf("canary") }))
	r := s.post("/", "", key)
	r.wantProblem(t, 403, "no-scope")
	if strings.Contains(r.body, "canary") {
		t.Error("the resolver's error is shown")
	}
	s.wantRuns(0)
	empty := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), Scope(func(*http.Request) string { return "" }))
	empty.post("/", "", key).wantProblem(t, 403, "no-scope")
	empty.wantRuns(0)
}

// I21: other body, path, method, query, media type; in flight and after.
func TestI21Mismatch(t *testing.T) {
	g := newGate(t)
	s := serve(t, func(http.ResponseWriter, *http.Request) { g.wait() }, IETF(), Unscoped(), Methods("POST", "PUT"))
	const json = "Content-Type: application/json"
	first := make(chan reply, 1)
	go func() { first <- s.post("/a?x=1&y=2", "body", key, json) }()
	<-g.arrived
	others := func() map[string]reply {
		return map[string]reply{
			"body":   s.post("/a?x=1&y=2", "other", key, json),
			"path":   s.post("/b?x=1&y=2", "body", key, json),
			"method": s.do("PUT", "/a?x=1&y=2", "body", key, json),
			"query":  s.post("/a?x=1&y=3", "body", key, json),
			"media":  s.post("/a?x=1&y=2", "body", key, "Content-Type: text/plain"),
		}
	}
	for name, r := range others() {
		t.Run("in flight/"+name, func(t *testing.T) { r.wantProblem(t, 422, "mismatch") })
	}
	s.post("/a?y=2&x=1", "body", key, json+"; charset=utf-8").wantProblem(t, 409, "in-flight")
	g.release()
	(<-first).want(t, 200, false)
	for name, r := range others() {
		t.Run("after/"+name, func(t *testing.T) { r.wantProblem(t, 422, "mismatch") })
	}
	s.post("/a?y=2&x=1", "body", key, json+"; charset=utf-8").want(t, 200, true)
	s.wantRuns(1)
}

// I22: multipart with another boundary; one byte of the file changed.
func TestI22Multipart(t *testing.T) {
	form := func(boundary, content string) (string, string) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		w.SetBoundary(boundary)
		w.WriteField("note", "hello")
		file, _ := w.CreateFormFile("file", "a.bin")
		io.WriteString(file, content)
		w.Close()
		return b.String(), "Content-Type: " + w.FormDataContentType()
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 20); err != nil || r.FormValue("note") != "hello" {
			t.Errorf("the handler cannot read its form: %v", err)
		}
	}, IETF(), Unscoped())
	body, contentType := form("one", "0123456789")
	s.post("/", body, key, contentType).want(t, 200, false)
	body, contentType = form("another-boundary", "0123456789")
	s.post("/", body, key, contentType).want(t, 200, true)
	body, contentType = form("one", "0123456780")
	s.post("/", body, key, contentType).wantProblem(t, 422, "mismatch")
	s.wantRuns(1)
}

// I28: keys that folding or trimming would make equal.
func TestI28KeysAreNotFolded(t *testing.T) {
	keys := []string{`"ABC"`, `"abc"`, `"k"`, `"k "`, `" k"`, `"K"`, `"%6b"`, `"k/"`}
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), Unscoped())
	for _, replayed := range []bool{false, true} {
		for _, k := range keys {
			s.post("/", "", "Idempotency-Key: "+k).want(t, 200, replayed)
		}
	}
	s.wantRuns(int64(len(keys)))
}

func TestCanonicalJSONBodies(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {}, IETF(), Unscoped(), Fingerprint(CanonicalJSON))
	const json = "Content-Type: application/merge-patch+json"
	s.post("/", `{"a":1.0,"b":[true]}`, key, json).want(t, 200, false)
	s.post("/", ` { "b" : [ true ], "a" : 1 } `, key, json).want(t, 200, true)
	s.post("/", `{"a":1,"b":[false]}`, key, json).wantProblem(t, 422, "mismatch")
}

// A route that changes its algorithm still knows its older records.
func TestFingerprintVersionsLiveSideBySide(t *testing.T) {
	engine := serveEngine(t)
	const json = "Content-Type: application/json"
	handler := func(http.ResponseWriter, *http.Request) {}
	before := serveOn(t, engine, handler, IETF(), Unscoped())
	before.post("/", `{"a":1}`, key, json).want(t, 200, false)
	after := serveOn(t, engine, handler, IETF(), Unscoped(), Fingerprint(CanonicalJSON))
	after.post("/", `{"a":1}`, key, json).want(t, 200, true)
	after.post("/", `{"a": 1}`, key, json).wantProblem(t, 422, "mismatch") // by the record's algorithm
}
