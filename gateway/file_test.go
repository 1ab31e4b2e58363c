package gateway

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence"
)

const goodFile = `# what is proxied
routes:
  - path: /charges/
    upstream: http://127.0.0.1:9000
    preset: stripe
    methods: [POST, PUT]
    scope:
      header: X-Tenant
      trusted: [10.0.0.0/8]
    require_key: true
    retention: forever
    lease: 15s
    max_request: 2097152
  - path: /hooks/
    upstream: http://127.0.0.1:9001
    preset: webhook
    scope: {unscoped: true}
locks:
  enabled: true
  scope: {unscoped: true}
  max_ttl: 30s
`

func TestParse(t *testing.T) {
	got, err := Parse("gateway.yaml", []byte(goodFile))
	if err != nil {
		t.Fatal(err)
	}
	want := File{
		Routes: []Route{
			{
				Path: "/charges/", Upstream: "http://127.0.0.1:9000", Preset: "stripe", Methods: []string{"POST", "PUT"},
				Scope: Scope{Header: "X-Tenant", Trusted: []string{"10.0.0.0/8"}}, RequireKey: true,
				Retention: redfence.Forever, Lease: 15 * time.Second, MaxRequest: 2 << 20,
			},
			{Path: "/hooks/", Upstream: "http://127.0.0.1:9001", Preset: "webhook", Scope: Scope{Unscoped: true}},
		},
		Locks: Locks{Enabled: true, Scope: Scope{Unscoped: true}, MaxTTL: 30 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "gateway.yaml")
	if _, err := Load(name); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := os.WriteFile(name, []byte(goodFile), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := Load(name); err != nil || len(file.Routes) != 2 {
		t.Errorf("%d routes, %v", len(file.Routes), err)
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		if _, isPath := err.(*os.PathError); isPath {
			return err
		}
		err = u.Unwrap()
	}
}

// Mistakes are told all at once, each by file, line and field.
func TestFileProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"shape": {`routes:
  - upstream: [1]
    lease: soon
    require_key: maybe
    max_request: many
    methods: POST: 1
`, []string{"f.yaml:6: mapping value"}}, // not YAML at all ends it
		"types": {`routes:
  - upstream: {a: 1}
    lease: soon
    require_key: maybe
    max_request: many
    methods: {a: 1}
    colour: red
    scope:
      unscoped: perhaps
      hat: 1
lokcs: {}
`, []string{
			"f.yaml:2: routes[0].upstream: a mapping is no text",
			"f.yaml:3: routes[0].lease: soon is no duration such as 10s",
			"f.yaml:4: routes[0].require_key: maybe is no true or false",
			"f.yaml:5: routes[0].max_request: many is no whole number",
			"f.yaml:6: routes[0].methods: a mapping is no list of texts",
			"f.yaml:7: routes[0].colour: unknown field",
			"f.yaml:9: routes[0].scope.unscoped: perhaps is no true or false",
			"f.yaml:10: routes[0].scope.hat: unknown field",
			"f.yaml:11: lokcs: unknown field",
		}},
		"values": {`routes:
  - upstream: ftp://x
    preset: best
    never_again: 200
  - upstream: http://x
    scope:
      header: X-Tenant
  - upstream: http://x
    scope: {unscoped: true}
    lease: 1ms
    methods: [post, GE T]
locks:
  enabled: true
  max_ttl: 1ms
`, []string{
			`f.yaml:2: routes[0].upstream: "ftp://x"`,
			`f.yaml:3: routes[0].preset: unknown preset "best"`,
			"f.yaml:4: routes[0].never_again: 200",
			"f.yaml:2: routes[0].scope: none",
			"f.yaml:6: routes[1].scope: trusted: none",
			"f.yaml:10: routes[2].lease: is 1ms",
			`f.yaml:11: routes[2].methods: "GE T" is no method`,
			"f.yaml:14: locks.max_ttl: must be at least 100ms",
			"f.yaml:12: locks.scope: none",
		}},
		"no routes":   {"locks: {enabled: false}\n", []string{"f.yaml:1: routes: none"}},
		"no mapping":  {"- 1\n", []string{"f.yaml:1: document: must be a mapping"}},
		"no list":     {"routes: 1\n", []string{"f.yaml:1: routes: must be a list"}},
		"no document": {"", []string{"f.yaml: want one YAML document"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f.yaml", []byte(tc.text))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("lacks %q:\n%s", part, strings.ReplaceAll(err.Error(), "; f.yaml", "\nf.yaml"))
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte("routes:\n- {upstream: &a http://x, scope: *a}\n"))
	f.Add([]byte("a: [b, {c: d}]\n? x\n: y\n"))
	f.Add([]byte("<<: {routes: []}\nroutes: !!binary aGk=\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Parse("f", text)
		if err == nil && len(file.Routes) == 0 {
			t.Fatal("accepted without routes")
		}
		if err != nil && !strings.HasPrefix(err.Error(), "f:") {
			t.Fatalf("the error does not name the file: %v", err)
		}
	})
}
