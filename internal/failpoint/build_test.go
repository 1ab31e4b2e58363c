package failpoint_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// program uses the package as the engine does.
const program = `package main

import (
	"context"
	"fmt"

	"github.com/redfence/redfence/internal/failpoint"
)

func main() {
	fmt.Println(failpoint.Hit(context.Background(), "before-claim"), failpoint.Mutant("no-ledger-claim"), failpoint.Chance("bare-majority"), failpoint.Text("lua/extend", "  return 0\n"))
}
`

// TestOnlyChaosBuildsHoldFailpoints looks for the variables, and for the names
// of places and mutants, in binaries built with and without the tag.
func TestOnlyChaosBuildsHoldFailpoints(t *testing.T) {
	needles := []string{"REDFENCE_FAILPOINTS", "REDFENCE_FAILPOINT_LOG", "REDFENCE_MUTANT", "before-claim", "no-ledger-claim", "REDFENCE_BIAS", "bare-majority", "extend-re-creates"}
	for _, c := range []struct {
		name string
		tags []string
		want bool
	}{{"plain", nil, false}, {"chaos", []string{"-tags", "chaos"}, true}} {
		t.Run(c.name, func(t *testing.T) {
			binary := build(t, c.tags)
			for _, needle := range needles {
				if got := bytes.Contains(binary, []byte(needle)); got != c.want {
					t.Errorf("the binary holds %q: %v, want %v", needle, got, c.want)
				}
			}
		})
	}
}

func build(t *testing.T, tags []string) []byte {
	t.Helper()
	// Inside the module, where internal packages may be imported; testdata is
	// no part of ./...
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("testdata", "build")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir); _ = os.Remove("testdata") })
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "program")
	args := append([]string{"build", "-buildvcs=false", "-o", out}, tags...)
	if text, err := exec.Command("go", append(args, "./"+source)...).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	binary, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}
