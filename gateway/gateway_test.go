package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

const key = "Idempotency-Key: tx-1"

func route(upstream string) Route {
	return Route{Upstream: upstream, Preset: "webhook", Scope: Scope{Unscoped: true}}
}

func TestProxiesOnce(t *testing.T) {
	var runs atomic.Int64
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Fence", r.Header.Get("Redfence-Fence"))
		w.Header().Set("X-Forged", r.Header.Get("Redfence-Forged"))
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %s", r.Method, r.URL, body)
	})
	g := start(t, Config{Routes: []Route{route(up.URL + "/base")}})
	first := post(t, g.URL+"/charges?a=1", "body", key, "Redfence-Fence: 999", "Redfence-Forged: x")
	again := post(t, g.URL+"/charges?a=1", "body", key)
	if first.StatusCode != 201 || first.body != "POST /base/charges?a=1 body" {
		t.Errorf("first: %d %s", first.StatusCode, first.body)
	}
	if f := first.Header.Get("X-Fence"); f == "" || f == "999" || f != first.Header.Get("Redfence-Fence") || first.Header.Get("X-Forged") != "" {
		t.Errorf("fence at the upstream %q, at the client %q", f, first.Header.Get("Redfence-Fence"))
	}
	if again.StatusCode != 201 || again.body != first.body || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("again: %d %s %v", again.StatusCode, again.body, again.Header)
	}
	if runs.Load() != 1 {
		t.Errorf("the upstream ran %d times", runs.Load())
	}
}

// An upstream that reads the request and breaks the connection must not get it
// a second time: http.Transport would send it again on its own.
func TestNeverSentTwice(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var requests atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				for i := 0; ; i++ {
					r, err := http.ReadRequest(in)
					if err != nil {
						return
					}
					io.Copy(io.Discard, r.Body)
					if r.Method == "POST" {
						requests.Add(1)
						return // breaks a connection that has been used before
					}
					io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			}()
		}
	}()
	g := start(t, Config{Routes: []Route{route("http://" + listener.Addr().String())}})
	for i, body := range []string{"", "body"} {
		r, _ := http.NewRequest("GET", g.URL, nil)
		send(t, http.DefaultClient, r) // so that the connection is a reused one
		if got := post(t, g.URL, body, fmt.Sprintf("Idempotency-Key: k%d", i)); got.StatusCode != http.StatusBadGateway {
			t.Errorf("got %d", got.StatusCode)
		}
		if n := requests.Load(); n != int64(i+1) {
			t.Errorf("the upstream got %d requests, want %d", n, i+1)
		}
	}
	listener.Close()
	<-done
}

func TestUpstreamDeclaresItsOutcome(t *testing.T) {
	var runs atomic.Int64
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		w.Header().Set(OutcomeHeader, r.Header.Get("X-Declare"))
		w.WriteHeader(http.StatusUnprocessableEntity)
	})
	for declared, want := range map[string]int64{"stored": 1, "released": 2} {
		runs.Store(0)
		r := route(up.URL)
		r.Preset = "ietf"
		g := start(t, Config{Routes: []Route{r}})
		for range 2 {
			got := post(t, g.URL, "", key, "X-Declare: "+declared)
			if got.StatusCode != 422 || got.Header.Get(OutcomeHeader) != "" {
				t.Errorf("%s: %d %v", declared, got.StatusCode, got.Header)
			}
		}
		if runs.Load() != want {
			t.Errorf("%s: ran %d times, want %d", declared, runs.Load(), want)
		}
	}
}

func TestDeadUpstreamReleasesTheKey(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	listener.Close()
	var told atomic.Value
	r := route("http://" + addr)
	r.Preset = "ietf" // would hold the key after a 502
	g := start(t, Config{Routes: []Route{r}, Error: func(err error) { told.Store(err.Error()) }})
	for range 2 {
		if got := post(t, g.URL+"/?secret=canary", "", key); got.StatusCode != http.StatusBadGateway || got.Header.Get("Redfence-Durable") != "false" {
			t.Errorf("got %d %v", got.StatusCode, got.Header)
		}
	}
	if text, _ := told.Load().(string); !strings.Contains(text, addr) || strings.Contains(text, "canary") {
		t.Errorf("told %q", text)
	}
}

func TestChunkedResponsesAreRecorded(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "one ")
		w.(http.Flusher).Flush() // no Content-Length: the proxy flushes each chunk
		io.WriteString(w, "two")
	})
	g := start(t, Config{Routes: []Route{route(up.URL)}})
	post(t, g.URL, "", key)
	if again := post(t, g.URL, "", key); again.body != "one two" || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%d %q", again.StatusCode, again.body)
	}
}

func TestOwnPaths(t *testing.T) {
	up := upstream(t, func(http.ResponseWriter, *http.Request) { t.Error("reached the upstream") })
	notReady := errors.New("no usable route: ledger unavailable")
	ready := notReady
	g := start(t, Config{
		Routes: []Route{route(up.URL)}, Ready: func(context.Context) error { return ready },
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") }),
	})
	get := func(path string) reply {
		r, _ := http.NewRequest("GET", g.URL+path, nil)
		return send(t, http.DefaultClient, r)
	}
	if r := get("/-/healthz"); r.StatusCode != 200 {
		t.Errorf("healthz: %d", r.StatusCode)
	}
	if r := get("/-/readyz"); r.StatusCode != 503 || !strings.Contains(r.body, notReady.Error()) {
		t.Errorf("readyz: %d %s", r.StatusCode, r.body)
	}
	ready = nil
	if r := get("/-/readyz"); r.StatusCode != 200 {
		t.Errorf("readyz: %d", r.StatusCode)
	}
	if r := get("/-/metrics"); r.body != "metrics" {
		t.Errorf("metrics: %s", r.body)
	}
	if r := get("/-/else"); r.StatusCode != 404 {
		t.Errorf("else: %d", r.StatusCode)
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	_, err := New(Config{Routes: []Route{
		{Path: "nowhere", Upstream: "ftp://x", Preset: "best", Fingerprint: "thumb", OnAbandoned: "pray", NeverAgain: 200},
		{Upstream: "http://x", Scope: Scope{Header: "X-Tenant"}},
		{Upstream: "http://x", Scope: Scope{Unscoped: true}, Lease: 1},
	}})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, part := range []string{
		"Engine: none", "routes[0].path", "routes[0].upstream", "routes[0].preset", "routes[0].fingerprint",
		"routes[0].on_abandoned", "routes[0].never_again", "routes[0].scope: none", "routes[1].scope: trusted", "routes[2].lease: is 1ns",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
}
