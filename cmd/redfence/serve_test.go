package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// clean keeps the caller's environment away from the flags.
func clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{"REDIS_URL", "DATABASE_URL", "REDFENCE_REDIS", "REDFENCE_DATABASE", "REDFENCE_SECRET"} {
		t.Setenv(name, "")
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServeReportsEveryProblemAtOnce(t *testing.T) {
	clean(t)
	code, _, errs := program(t, "serve", "--redis", "127.0.0.1:1,127.0.0.1:1", "--preset", "best", "--upstream", "app:80",
		"--retention=-1s", "--fingerprint", "xml", "--secret-file", filepath.Join(t.TempDir(), "none"))
	if code != exitInvalid {
		t.Errorf("exit code %d, want %d", code, exitInvalid)
	}
	for _, want := range []string{
		"2 is even", "same address", "--preset", "--upstream", "--fingerprint", "--scope-header", "--secret-file", "--database: none",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("nothing said about %s:\n%s", want, errs)
		}
	}
	for line := range strings.Lines(errs) {
		if !strings.HasPrefix(line, "redfence: ") {
			t.Errorf("not one line per problem: %q", line)
		}
	}
}

func TestServeNeedsNodesAndUpstream(t *testing.T) {
	clean(t)
	code, _, errs := program(t, "serve")
	if code != exitInvalid || !strings.Contains(errs, "--redis: none") || !strings.Contains(errs, "--upstream") {
		t.Errorf("exit code %d:\n%s", code, errs)
	}
}

func TestPasswordsAreNotRepeated(t *testing.T) {
	clean(t)
	_, out, errs := program(t, "serve", "--redis", "redis://u:hunter2@[::1", "--database", "postgres://u:hunter2@h:port/d")
	if strings.Contains(out+errs, "hunter2") {
		t.Errorf("a password is shown:\n%s%s", out, errs)
	}
}

func TestServeRefusesASchemaThatIsTooNew(t *testing.T) {
	clean(t)
	db := testenv.Postgres(t)
	execute(t, db.URL(), func(ctx context.Context, conn *pgx.Conn) error {
		if code, _, errs := program(t, "migrate", "--database", db.URL()); code != exitOK {
			t.Fatal(errs)
		}
		_, err := conn.Exec(ctx, "UPDATE idempotency_meta SET version = 99, min_binary = 99")
		return err
	})
	code, _, errs := program(t, "serve", "--redis", "127.0.0.1:1", "--upstream", "http://127.0.0.1:1", "--unscoped", "--preset", "best", "--database", db.URL())
	if code != exitInvalid || !strings.Contains(errs, "too new") || !strings.Contains(errs, "--preset") {
		t.Errorf("exit code %d, want %d, and both problems:\n%s", code, exitInvalid, errs)
	}
}

func execute(t *testing.T, url string, do func(context.Context, *pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := do(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
}

func TestServeRunsOnceAndReplays(t *testing.T) {
	clean(t)
	nodes := testenv.Redis(t, 3)
	g := serve(t, "--demo", "--redis", urls(nodes), "--database", testenv.Postgres(t).URL())
	g.ready(t)
	first := g.post(t, "/orders", "order-1", "a body")
	if first.StatusCode != http.StatusCreated {
		t.Fatalf("status %d: %s", first.StatusCode, read(t, first))
	}
	again := g.post(t, "/orders", "order-1", "a body")
	if again.Header.Get("Idempotent-Replayed") != "true" || read(t, again) != read(t, first) {
		t.Errorf("the second answer is no replay: %v", again.Header)
	}
	if other := g.post(t, "/orders", "order-1", "another body"); other.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("another request under the key: status %d, want 422", other.StatusCode)
	}
	if status, body := get(t, g.url+"/-/metrics"); status != http.StatusOK || !strings.Contains(body, "redfence_") {
		t.Errorf("metrics: %d %s", status, body)
	}
	if code := g.stop(); code != exitOK {
		t.Errorf("exit code %d:\n%s", code, g.err)
	}
	if n := strings.Count(g.out.String(), "demo upstream: execution"); n != 1 {
		t.Errorf("%d executions, want 1:\n%s", n, g.out)
	}
}

// The recorder of a chaos run knows of a start before the client has an answer;
// where it is gone the demo service does not start.
func TestDemoReportsItsStarts(t *testing.T) {
	var lines []map[string]any
	recorder := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var line map[string]any
		if err := json.NewDecoder(r.Body).Decode(&line); err != nil {
			t.Error(err)
		}
		lines = append(lines, line)
	}))
	up, err := startDemoUpstream(new(output), recorder.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer up.close()
	post := func() int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, up.addr, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "order-1")
		req.Header.Set("Redfence-Fence", "7")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	if status := post(); status != http.StatusCreated {
		t.Errorf("status %d", status)
	}
	want := []map[string]any{{"kind": "start", "key": "order-1", "execution": "1", "fence": 7.0}}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	recorder.Close()
	if status := post(); status != http.StatusInternalServerError {
		t.Errorf("without a recorder: status %d", status)
	}
}

func TestServeFromAFile(t *testing.T) {
	clean(t)
	up, err := startDemoUpstream(new(output), "")
	if err != nil {
		t.Fatal(err)
	}
	defer up.close()
	config := filepath.Join(t.TempDir(), "gateway.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("routes:\n- path: /orders\n  upstream: " + up.addr + "\n  preset: webhook\n  scope: {unscoped: true}\n" +
		"locks:\n  enabled: true\n  scope: {unscoped: true}\n")
	stores := []string{"--redis", urls(testenv.Redis(t, 3)), "--database", testenv.Postgres(t).URL(), "--migrate", "--config", config}
	g := serve(t, stores...)
	g.ready(t)
	g.post(t, "/orders", "order-1", "")
	if again := g.post(t, "/orders", "order-1", ""); again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("no replay: %d %v", again.StatusCode, again.Header)
	}

	taken := `{"ttl_ms":10000,"lease":"0123456789abcdef"}`
	if first := g.post(t, "/-/locks/nightly", "", taken); first.StatusCode != http.StatusCreated && first.StatusCode != http.StatusOK {
		t.Errorf("a lock over HTTP: %d %s", first.StatusCode, read(t, first))
	}
	if second := g.post(t, "/-/locks/nightly", "", `{"ttl_ms":10000,"lease":"fedcba9876543210"}`); second.StatusCode < 400 {
		t.Errorf("a lock that is held was granted: %d %s", second.StatusCode, read(t, second))
	}
	release, err := http.NewRequest(http.MethodDelete, g.url+"/-/locks/nightly/0123456789abcdef", nil)
	if err != nil {
		t.Fatal(err)
	}
	if released := do(t, release); released.StatusCode >= 300 {
		t.Errorf("release: %d %s", released.StatusCode, read(t, released))
	}

	write("routes:\n- upstream: 7\n  preset: best\n")
	code, _, errs := program(t, append([]string{"serve", "--unscoped"}, stores...)...)
	if code != exitInvalid || !strings.Contains(errs, "gateway.yaml:") || !strings.Contains(errs, "--config: gives the routes") {
		t.Errorf("a bad file and flags of a route: exit code %d\n%s", code, errs)
	}
}

func TestServeDrains(t *testing.T) {
	clean(t)
	nodes := testenv.Redis(t, 3)
	g := serve(t, "--demo", "--redis", urls(nodes), "--database", testenv.Postgres(t).URL())
	g.ready(t)
	answered := make(chan *http.Response)
	go func() { answered <- g.post(t, "/orders?sleep=1s", "slow", "") }()
	eventually(t, func() error {
		if !strings.Contains(g.out.String(), "execution 1") {
			return fmt.Errorf("the request has not arrived: %s", g.out)
		}
		return nil
	})
	stopped := make(chan int)
	go func() { stopped <- g.stop() }()
	if resp := <-answered; resp.StatusCode != http.StatusCreated {
		t.Errorf("a request in flight got %d", resp.StatusCode)
	}
	if code := <-stopped; code != exitOK {
		t.Errorf("exit code %d:\n%s", code, g.err)
	}
}

func TestServeWaitsForPostgres(t *testing.T) {
	clean(t)
	nodes := testenv.Redis(t, 3)
	db := testenv.OwnPostgres(t)
	if err := db.Kill(); err != nil {
		t.Fatal(err)
	}
	g := serve(t, "--demo", "--redis", urls(nodes), "--database", db.URL())
	if status, body := get(t, g.url+"/-/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d %s", status, body)
	}
	if status, body := get(t, g.url+"/-/healthz"); status != http.StatusOK {
		t.Errorf("healthz: %d %s", status, body)
	}
	refused := g.post(t, "/orders", "early", "")
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("a request before the ledger is there: %d %v", refused.StatusCode, refused.Header)
	}
	if err := db.Restart(); err != nil {
		t.Fatal(err)
	}
	g.ready(t)
	if resp := g.post(t, "/orders", "early", ""); resp.StatusCode != http.StatusCreated {
		t.Errorf("after the ledger has come: %d", resp.StatusCode)
	}
}

func TestServeWithEveryNodeDown(t *testing.T) {
	clean(t)
	nodes := testenv.Redis(t, 3)
	for _, n := range nodes {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	g := serve(t, "--demo", "--redis", urls(nodes), "--database", testenv.Postgres(t).URL())
	g.ready(t)
	if resp := g.post(t, "/orders", "order-1", ""); resp.StatusCode != http.StatusCreated {
		t.Fatalf("status %d: %s", resp.StatusCode, read(t, resp))
	}
	if again := g.post(t, "/orders", "order-1", ""); again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("no replay: %d %v", again.StatusCode, again.Header)
	}
}

func TestMigrate(t *testing.T) {
	clean(t)
	db := testenv.Postgres(t)
	code, sql, errs := program(t, "migrate", "--print", "--schema", "rf")
	if code != exitOK || !strings.Contains(sql, "idempotency_keys") {
		t.Fatalf("exit code %d: %s\n%s", code, errs, sql)
	}
	execute(t, db.URL(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "BEGIN;"+sql+"COMMIT")
		return err
	})
	code, out, errs := program(t, "migrate", "--database", db.URL(), "--schema", "rf")
	if code != exitOK || !strings.Contains(out, fmt.Sprintf("version %d", fallback.SchemaVersion)) {
		t.Errorf("after the printed SQL: exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs := program(t, "migrate", "--database", "postgres://127.0.0.1:1/none"); code != exitFailed || !strings.Contains(errs, "does not answer") {
		t.Errorf("an unreachable database: exit code %d: %s", code, errs)
	}
}

// A demo migrates and fills what it uses: never what the shell happens to name.
func TestDemoDoesNotUseTheEnvironment(t *testing.T) {
	clean(t)
	nodes, db := testenv.Redis(t, 3), testenv.Postgres(t)
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/production")
	t.Setenv("REDIS_URL", urls(nodes))
	g := serve(t, "--demo", "--database", db.URL())
	g.ready(t)
	if strings.Contains(g.out.String(), nodes[0].Addr()) || !strings.Contains(g.err.String(), "give --redis to use them") {
		t.Errorf("it uses the nodes of the environment:\n%s%s", g.out, g.err)
	}
}

func TestDrainDelayLetsRequestsIn(t *testing.T) {
	clean(t)
	g := serve(t, "--demo", "--drain-delay", "2s", "--redis", urls(testenv.Redis(t, 3)), "--database", testenv.Postgres(t).URL())
	g.ready(t)
	code := make(chan int, 1)
	go func() { code <- g.stop() }()
	eventually(t, func() error {
		if status, _ := get(t, g.url+"/-/readyz"); status != http.StatusServiceUnavailable {
			return fmt.Errorf("readyz: %d", status)
		}
		return nil
	})
	if resp := g.post(t, "/orders", "order-1", ""); resp.StatusCode != http.StatusCreated {
		t.Errorf("a request in the meantime: %d", resp.StatusCode)
	}
	if <-code != exitOK || !strings.Contains(g.err.String(), "drained") {
		t.Errorf("no end: %s", g.err)
	}
}
