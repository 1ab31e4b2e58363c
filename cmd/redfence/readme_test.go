package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redfence/redfence/internal/servers"
	"github.com/redfence/redfence/internal/testenv"
)

// root is the repository seen from this package.
const root = "../.."

// blocks returns the fenced blocks of one kind in the README.
func blocks(t *testing.T, kind string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, match := range regexp.MustCompile("(?s)```"+kind+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		found = append(found, match[1])
	}
	if len(found) == 0 {
		t.Fatalf("the README has no %s block", kind)
	}
	return found
}

// A step is a command of the README with the lines that it is shown to print.
type step struct {
	command string
	output  []string
}

func steps(t *testing.T) []step {
	t.Helper()
	var all []step
	for _, block := range blocks(t, "console") {
		for line := range strings.Lines(block) {
			line = strings.TrimSuffix(line, "\n")
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				all = append(all, step{command: command})
				continue
			}
			if len(all) == 0 {
				t.Fatalf("output without a command: %q", line)
			}
			last := &all[len(all)-1]
			last.output = append(last.output, line)
		}
	}
	return all
}

// TestReadmeCommands runs the commands of the README, all in one shell, and
// looks for the lines that they are shown to print. The two long ones are only
// looked up: CI runs them by themselves.
func TestReadmeCommands(t *testing.T) {
	clean(t)
	if err := servers.Available(); err != nil && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	shown, address := steps(t), freeAddress(t)
	// Not in the tree: tests leave nothing there.
	here := strings.NewReplacer(
		"make ", `make --dry-run -C "$TREE" `,
		"go build -o bin/redfence ", `go build -C "$TREE" -o "$PWD/bin/redfence" `,
		"127.0.0.1:8080", address,
	)
	script := "set -e\ntrap 'kill %1 2>/dev/null || true' EXIT\n"
	for i, s := range shown {
		script += fmt.Sprintf("echo; echo '@@ %d'\n%s\n", i, here.Replace(s.command))
	}
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = t.TempDir()
	shell.Env = append(os.Environ(), "TREE="+tree, "REDFENCE_LISTEN="+address)
	// What the shell started ends with it, also when the test is stopped.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	out, err := shell.CombinedOutput()
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(shell.Dir, "bin", "demo.log"))
		t.Fatalf("%v\n%s\n%s", err, out, log)
	}
	compare(t, shown, string(out))
}

// compare looks for the lines shown under each command in what it printed, in
// their order; others may stand between them, and … stands for anything.
func compare(t *testing.T, shown []step, out string) {
	t.Helper()
	out = strings.ReplaceAll(out, "\r", "")
	for i, s := range shown {
		_, printed, ok := strings.Cut(out, fmt.Sprintf("\n@@ %d\n", i))
		if !ok {
			t.Fatalf("%s: was not reached", s.command)
		}
		printed, _, _ = strings.Cut(printed, "\n@@ ")
		rest := strings.Split(printed, "\n")
		for _, want := range s.output {
			pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
			at := slices.IndexFunc(rest, pattern.MatchString)
			if at < 0 {
				t.Errorf("%s: %q is not among what was printed:\n%s", s.command, want, printed)
				break
			}
			rest = rest[at+1:]
		}
	}
}

// freeAddress returns an address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// aroundProgram is what the README's program leaves out.
const aroundProgram = `package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/lock"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func charge(ctx context.Context, ex *redfence.Execution) (string, error) {
	fmt.Println("charged")
	return fmt.Sprintf("receipt %d", ex.Fence()), nil
}

`

// TestReadmeProgram runs the README's program twice.
func TestReadmeProgram(t *testing.T) {
	clean(t)
	nodes, db := testenv.Redis(t, 5), testenv.Postgres(t)
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(aroundProgram+blocks(t, "go")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"charged\nreceipt 1\n", "receipt 1\n"} {
		program := exec.CommandContext(t.Context(), binary)
		program.Env = append(os.Environ(), "REDIS_URL="+urls(nodes), "DATABASE_URL="+db.URL())
		out, err := program.CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("got %q, %v; want %q", out, err, want)
		}
	}
}

// TestReadmeLinks follows the links into the tree.
func TestReadmeLinks(t *testing.T) {
	for _, name := range []string{"README.md", "docs/OPERATIONS.md", "docs/ERRORS.md", "docs/BENCHMARKS.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), link[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}
