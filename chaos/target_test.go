package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redfence/redfence/internal/servers"
)

// hookVariable makes this test binary the hook of -exec: it passes on what it
// is told to the test at the URL.
const hookVariable = "CHAOS_TEST_HOOK"

// hook returns the exit code.
func hook(to string, args []string) int {
	resp, err := http.Get(to + "/" + strings.Join(args, "/"))
	if err != nil || resp.StatusCode != http.StatusOK {
		fmt.Fprintln(os.Stderr, err, resp)
		return 1
	}
	fmt.Println("done as the test says")
	return 0
}

// breaker kills and restarts nodes as a hook asks for it.
func breaker(t *testing.T, nodes []*servers.Redis) (calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		parts := strings.Split(r.URL.Path, "/") // /kill-node/2/inject
		i, err := strconv.Atoi(parts[2])
		switch {
		case err != nil:
		case parts[1]+" "+parts[3] == "kill-node inject":
			err = nodes[i].Kill()
		case parts[1]+" "+parts[3] == "kill-node heal":
			err = nodes[i].Restart()
		default:
			err = fmt.Errorf("unexpected %s", r.URL.Path)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv(hookVariable, server.URL)
	return calls
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

// gateway starts `redfence serve --demo` over the stores as a process of its
// own, and returns the URL of what it protects.
func gateway(t *testing.T, binary string, nodes []*servers.Redis, database, recorder string) string {
	t.Helper()
	urls := make([]string, len(nodes))
	for i, node := range nodes {
		urls[i] = node.URL()
	}
	dir, address := t.TempDir(), freeAddress(t)
	log := filepath.Join(dir, "log")
	p, err := servers.StartProgram(servers.ProgramOptions{
		Path: binary, Dir: dir, Log: log,
		Args: []string{"serve", "--demo", "--preset", "ietf", "--demo-recorder", "http://" + recorder,
			"--redis", strings.Join(urls, ","), "--database", database, "--listen", address},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("%s", text[max(0, len(text)-2000):])
		}
	})
	return "http://" + address + "/orders"
}

// TestTargetIsBrokenByItsHookAndJudged points the harness at two gateways that
// it has not started, whose nodes the hook kills.
func TestTargetIsBrokenByItsHookAndJudged(t *testing.T) {
	needServers(t)
	binary := filepath.Join(t.TempDir(), "redfence")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", binary, "../cmd/redfence").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	nodes, database := targetStores(t)
	calls := breaker(t, nodes)
	recorder := freeAddress(t)
	one := gateway(t, binary, nodes, database, recorder)
	two := gateway(t, binary, nodes, database, recorder)
	dir := filepath.Join(t.TempDir(), "run")
	code, out := chaos(t, easy, "-target", one+","+two, "-exec", os.Args[0], "-recorder", recorder,
		"-nodes", "3", "-duration", "14s", "-seed", "2", "-out", dir)
	if code != 0 || lastLine(out) != "verdict: fine (0)" {
		t.Errorf("exit code %d, last line %q", code, lastLine(out))
	}
	for _, want := range []string{"3 nodes were down at once", "double start            0", "not checked", "broken by"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not hold %q", want)
		}
	}
	if calls.Load() < 6 {
		t.Errorf("the hook was called %d times only", calls.Load())
	}
	if code, again := chaos(t, "check", dir); code != 0 || again != out {
		t.Errorf("judged again: exit code %d", code)
	}
}

func targetStores(t *testing.T) (nodes []*servers.Redis, database string) {
	t.Helper()
	for range 3 {
		node, err := servers.StartRedis(t.Context(), servers.RedisOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	postgres, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Close() })
	return nodes, postgres.URL()
}

// TestTargetThatRunsTwiceIsCaught: a service without protection, that reports
// its starts or does not.
func TestTargetThatRunsTwiceIsCaught(t *testing.T) {
	for _, c := range []struct {
		reports           bool
		finds, cannotFind string
	}{{true, "double start", "fence order: the starts"}, {false, "answers differ", "double start, fence order, answer without effect: no handler"}} {
		recorder := freeAddress(t)
		var runs atomic.Int64
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			run := runs.Add(1)
			if c.reports {
				line, _ := json.Marshal(map[string]any{"kind": "start", "key": r.Header.Get("Idempotency-Key"), "execution": fmt.Sprint(run)})
				resp, err := http.Post("http://"+recorder, "application/json", bytes.NewReader(line))
				if err != nil {
					http.Error(w, err.Error(), http.StatusBadGateway)
					return
				}
				_ = resp.Body.Close()
			}
			_, _ = fmt.Fprintf(w, `{"execution":%d}`, run)
		}))
		code, out := chaos(t, easy, "-target", service.URL, "-exec", "true", "-recorder", recorder, "-nodes", "3", "-duration", "8s",
			"-fault", "flush-nodes", "-out", filepath.Join(t.TempDir(), "run"))
		service.Close()
		if code != 1 || !strings.Contains(out, "SAFETY: "+c.finds) || !strings.Contains(out, "not checked             "+c.cannotFind) {
			t.Errorf("reports its starts: %v: exit code %d", c.reports, code)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestComposeIsBrokenAndMended runs against a deployment of which the containers
// are made up, and the service is not.
func TestComposeIsBrokenAndMended(t *testing.T) {
	dir := t.TempDir()
	fake, err := filepath.Abs("internal/cluster/testdata/docker")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fake, filepath.Join(dir, "docker")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER", dir)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"execution":%q}`, r.Header.Get("Idempotency-Key")) // the same for ever
	}))
	defer service.Close()
	args := []string{easy, "-driver", "compose", "-target", service.URL, "-nodes", "3", "-duration", "10s", "-preset", "all-down", "-out", filepath.Join(t.TempDir(), "run")}
	if code, _ := chaos(t, args...); code != failure {
		t.Errorf("a deployment that does not run: exit code %d", code)
	}
	for _, name := range []string{"redis1", "redis2", "redis3", "gateway1", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, "state-"+name), []byte("running\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args[len(args)-1] += "-again"
	code, out := chaos(t, args...)
	if code != 0 || lastLine(out) != "verdict: fine (0)" || !strings.Contains(out, "the containers of docker-compose.multi.yml") {
		t.Errorf("exit code %d, last line %q", code, lastLine(out))
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	killed, started := strings.Count(string(log), "kill -s KILL redis"), strings.Count(string(log), "start redis")
	if killed < 3 || started != killed {
		t.Errorf("%d killed, %d started:\n%s", killed, started, log)
	}
}

func TestTargetsAreWholeURLs(t *testing.T) {
	for target, want := range map[string]string{"http://a:1": "http://a:1/", "http://a:1/x?y=z": "http://a:1/x?y=z"} {
		if got := withPath(target); got != want {
			t.Errorf("%s: %s", target, got)
		}
	}
	for _, target := range composeTargets() {
		if u, err := url.Parse(target); err != nil || u.Path != "/orders" {
			t.Errorf("%s: %v", target, err)
		}
	}
	t.Setenv("GATEWAY2_PORT", "9002")
	if got := composeTargets()[1]; got != "http://127.0.0.1:9002/orders" {
		t.Error(got)
	}
}
