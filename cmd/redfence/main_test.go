package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// output is a buffer that a program writes to while the test reads it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// program runs a command to its end.
func program(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs output
	code = runContext(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// gatewayUnderTest is a `redfence serve` in this process.
type gatewayUnderTest struct {
	url      string
	out, err *output
	stop     func() int // as SIGTERM does; returns the exit code
}

// serve starts a gateway on a free port and waits until it listens.
func serve(t *testing.T, args ...string) *gatewayUnderTest {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	g := &gatewayUnderTest{out: new(output), err: new(output)}
	code := make(chan int, 1)
	go func() {
		code <- runContext(ctx, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...), g.out, g.err)
	}()
	g.stop = sync.OnceValue(func() int { cancel(); return <-code })
	t.Cleanup(func() { g.stop() })
	announced := regexp.MustCompile(`serving (http://\S+),`)
	eventually(t, func() error {
		if found := announced.FindStringSubmatch(g.out.String()); found != nil {
			g.url = found[1]
			return nil
		}
		return fmt.Errorf("not serving yet: %s%s", g.out, g.err)
	})
	return g
}

// ready waits until the gateway says so.
func (g *gatewayUnderTest) ready(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if status, body := get(t, g.url+"/-/readyz"); status != http.StatusOK {
			return fmt.Errorf("readyz: %d %s\n%s", status, body, g.err)
		}
		return nil
	})
}

// post sends a request with a key.
func (g *gatewayUnderTest) post(t *testing.T, path, key, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", key)
	return do(t, r)
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp := do(t, r)
	return resp.StatusCode, read(t, resp)
}

// do sends a request on a connection of its own and reads the body into
// memory.
func do(t *testing.T, r *http.Request) *http.Response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// eventually polls until check returns nil.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// urls lists the addresses of nodes for --redis.
func urls(nodes []*testenv.RedisServer) string {
	all := make([]string, len(nodes))
	for i, n := range nodes {
		all[i] = n.URL()
	}
	return strings.Join(all, ",")
}
