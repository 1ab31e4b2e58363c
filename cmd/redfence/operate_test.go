package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redfence/redfence/internal/testenv"
)

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	clean(t)
	nodes := testenv.Redis(t, 5)
	db := testenv.Postgres(t)
	doctor := func(redis string) (int, []finding) {
		t.Helper()
		code, out, errs := program(t, "doctor", "--json", "--redis", redis, "--database", db.URL())
		var found []finding
		if err := json.Unmarshal([]byte(out), &found); err != nil {
			t.Fatalf("exit code %d: %v\n%s%s", code, err, out, errs)
		}
		return code, found
	}
	has := func(found []finding, what string, fatal bool) bool {
		return slices.ContainsFunc(found, func(f finding) bool {
			return f.Fatal == fatal && strings.Contains(f.What, what) && f.Next != ""
		})
	}

	code, found := doctor(urls(nodes))
	if code != exitFailed || !has(found, "", true) {
		t.Errorf("a database without a ledger: exit code %d, %+v", code, found)
	}
	if code, _, errs := program(t, "migrate", "--database", db.URL()); code != exitOK {
		t.Fatal(errs)
	}
	if code, found = doctor(urls(nodes)); code != exitOK {
		t.Errorf("a sound deployment: exit code %d, %+v", code, found)
	}

	if err := nodes[0].Client().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	if code, found = doctor(urls(nodes)); code != exitFailed || !has(found, "evict", true) {
		t.Errorf("an evicting node: exit code %d, %+v", code, found)
	}
	twice := urls(nodes[1:3]) + "," + strings.Replace(nodes[1].Addr(), "127.0.0.1", "localhost", 1)
	if code, found = doctor(twice); code != exitFailed || !has(found, "same server", true) {
		t.Errorf("a node under two names: exit code %d, %+v", code, found)
	}
	for _, n := range nodes[2:] {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if code, found = doctor(urls(nodes)); code != exitFailed || !has(found, "2 of 5 nodes answer", true) || !has(found, "does not answer", false) {
		t.Errorf("three of five nodes down: exit code %d, %+v", code, found)
	}
}

func TestStatusTellsTheRoute(t *testing.T) {
	clean(t)
	nodes := testenv.Redis(t, 3)
	db := testenv.OwnPostgres(t)
	status := func() (int, string) {
		code, out, errs := program(t, "status", "--redis", urls(nodes), "--database", db.URL())
		return code, out + errs
	}
	if code, out := status(); code != exitOK || !strings.Contains(out, "route   primary") {
		t.Errorf("all is well: exit code %d\n%s", code, out)
	}
	for _, n := range nodes[1:] {
		if err := n.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	if code, out := status(); code != exitOK || !strings.Contains(out, "route   fallback") {
		t.Errorf("no quorum: exit code %d\n%s", code, out)
	}
	if err := db.Kill(); err != nil {
		t.Fatal(err)
	}
	if code, out := status(); code != exitFailed || !strings.Contains(out, "refused") {
		t.Errorf("no ledger: exit code %d\n%s", code, out)
	}
}

func TestResolveDecidesAnUnknownOutcome(t *testing.T) {
	clean(t)
	nodes := testenv.Redis(t, 3)
	db := testenv.Postgres(t)
	stores := []string{"--redis", urls(nodes), "--database", db.URL()}
	g := serve(t, append([]string{"--demo", "--preset", "ietf"}, stores...)...)
	g.ready(t)
	g.post(t, "/orders?status=500", "order-1", "")
	if resp := g.post(t, "/orders?status=500", "order-1", ""); resp.StatusCode != http.StatusConflict {
		t.Fatalf("a duplicate of an unknown outcome: status %d", resp.StatusCode)
	}
	code, out, errs := program(t, append([]string{"keys", "show", "order-1"}, stores...)...)
	var shown row
	if err := json.Unmarshal([]byte(out), &shown); err != nil || shown.State != "unknown" {
		t.Fatalf("keys show: exit code %d, %v: %s%s", code, err, out, errs)
	}

	code, out, errs = program(t, "keys", "list", "--state", "unknown", "--database", db.URL())
	if code != exitOK || !strings.Contains(out, `"order-1"`) || !strings.Contains(out, shown.Digest) {
		t.Errorf("keys list: exit code %d: %s%s", code, out, errs)
	}
	if _, out, _ = program(t, "keys", "list", "--scope", "acme", "--database", db.URL()); strings.Contains(out, "order-1") {
		t.Errorf("keys list of another scope: %s", out)
	}
	code, out, _ = program(t, "keys", "list", "--after", shown.Digest, "--database", db.URL())
	if code != exitOK || strings.Contains(out, shown.Digest) {
		t.Errorf("keys list after the only key: exit code %d: %s", code, out)
	}
	if code, _, errs := program(t, "keys", "list", "--state", "gone", "--limit", "0", "--after", "x"); code != exitInvalid ||
		!strings.Contains(errs, "--state") || !strings.Contains(errs, "--limit") || !strings.Contains(errs, "--after") {
		t.Errorf("keys list with bad flags: exit code %d: %s", code, errs)
	}

	lone := []string{"--why", "x", "--redis", nodes[0].URL(), "--database", db.URL()}
	code, _, errs = program(t, append([]string{"resolve", "order-1", "--release"}, lone...)...)
	if code != exitFailed || !strings.Contains(errs, "nothing was changed") || !strings.Contains(errs, nodes[2].Addr()) {
		t.Errorf("resolve with one of three nodes: exit code %d: %s", code, errs)
	}
	if code, out, errs := program(t, append([]string{"keys", "forget", "order-1"}, lone...)...); code != exitFailed || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("forget with one of three nodes: exit code %d: %s%s", code, out, errs)
	}
	_, out, _ = program(t, "doctor", "--redis", nodes[0].URL(), "--database", db.URL())
	if !strings.Contains(out, "one node only") || !strings.Contains(out, "engines of this ledger use") {
		t.Errorf("doctor with one of three nodes:\n%s", out)
	}
	code, _, errs = program(t, append([]string{"keys", "forget", "nosuch", "--why", "x"}, stores...)...)
	if code != exitFailed || !strings.Contains(errs, `nobody has claimed the key "nosuch"`) || !strings.Contains(errs, "--scope") {
		t.Errorf("forget of a key that is not there: exit code %d: %s", code, errs)
	}

	resolve := append([]string{"resolve", "order-1", "--why", "seen in the ledger of payments"}, stores...)
	if code, _, errs := program(t, resolve...); code != exitInvalid {
		t.Errorf("neither released nor completed: exit code %d: %s", code, errs)
	}
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte("paid"), 0o600); err != nil {
		t.Fatal(err)
	}
	done := append(resolve, "--status", "201", "--header", "Content-Type: text/plain", "--body", body)
	if code, _, errs := program(t, done...); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	resp := g.post(t, "/orders?status=500", "order-1", "")
	if resp.StatusCode != http.StatusCreated || read(t, resp) != "paid" || resp.Header.Get("Content-Type") != "text/plain" {
		t.Errorf("after it was resolved: %d %v", resp.StatusCode, resp.Header)
	}
	if code, _, errs := program(t, done...); code != exitFailed {
		t.Errorf("resolved twice: exit code %d: %s", code, errs)
	}

	if code, _, errs := program(t, append([]string{"keys", "forget", "order-1", "--why", "erasure"}, stores...)...); code != exitOK {
		t.Errorf("forget: exit code %d: %s", code, errs)
	}
	_, out, _ = program(t, append([]string{"keys", "show", "order-1", "--body"}, stores...)...)
	var erased row
	if err := json.Unmarshal([]byte(out), &erased); err != nil || erased.State != "tombstone" || erased.Body != "" {
		t.Errorf("after forget: %v\n%s", err, out)
	}
}

func TestVersionAndHelp(t *testing.T) {
	clean(t)
	if code, out, _ := program(t, "version"); code != exitOK || !strings.Contains(out, "schema") {
		t.Errorf("version: %d %q", code, out)
	}
	if code, out, _ := program(t, "serve", "--help"); code != exitOK || !strings.Contains(out, "REDFENCE_UPSTREAM") || !strings.Contains(out, "DATABASE_URL") {
		t.Errorf("help: %d %q", code, out)
	}
	t.Setenv("REDFENCE_FORCE", "true")
	t.Setenv("REDFENCE_WHY", "because")
	if code, _, errs := program(t, "resolve", "x", "--release"); code != exitInvalid || !strings.Contains(errs, "--why") || !strings.Contains(errs, "run redfence resolve --help") {
		t.Errorf("the environment decides keys: %d %q", code, errs)
	}
	if _, out, _ := program(t, "--help"); !strings.Contains(out, "Exit codes") {
		t.Errorf("help without exit codes: %q", out)
	}
	if code, _, errs := program(t, "fly"); code != exitInvalid {
		t.Errorf("an unknown command: %d %q", code, errs)
	}
}

// What Postgres says is told on one line, the advice on the next.
func TestErrorsOfPostgresAreShort(t *testing.T) {
	clean(t)
	code, _, errs := program(t, "migrate", "--database", "postgres://u:hunter2@127.0.0.1:1/d")
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if code != exitFailed || len(lines) != 2 || !strings.HasPrefix(lines[1], "redfence: next: check --database") || strings.Contains(errs, "hunter2") {
		t.Errorf("exit code %d:\n%s", code, errs)
	}
}
