package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// docker stands in for the engine: it tells of five containers, and writes down
// what it is asked to do to them.
const docker = `#!/bin/sh
case "$1 $*" in
"ps "*) for i in 1 2 3 4 5; do echo "c$i redis$i"; done; echo "c6 postgres" ;;
*"NetworkSettings"*) echo net_a; echo net_b ;;
*"Config.Labels"*) for id; do :; done; echo "redis${id#c}" ;;
*) echo "$*" >> "$DOCKER_LOG" ;;
esac
`

// TestRedisScript: each fault hits as many Redis containers as asked for, and
// every one of them is mended.
func TestRedisScript(t *testing.T) {
	for what, verbs := range map[string][2]string{
		"kill":  {"kill --signal KILL", "start"},
		"pause": {"pause", "unpause"},
		"cut":   {"network disconnect", "network connect"},
		"flush": {"exec", ""},
	} {
		t.Run(what, func(t *testing.T) {
			done := runRedisScript(t, what, "3", "0")
			hit, mended := count(done, verbs[0]), count(done, verbs[1])
			want := 3
			if what == "cut" { // from two networks each
				want = 6
			}
			if hit != want || verbs[1] != "" && mended != want {
				t.Errorf("hit %d, mended %d, want %d:\n%s", hit, mended, want, strings.Join(done, "\n"))
			}
			if slices.ContainsFunc(done, func(line string) bool { return strings.Contains(line, "c6") }) {
				t.Error("Postgres was harmed")
			}
		})
	}
}

func count(lines []string, verb string) (n int) {
	for _, line := range lines {
		if verb != "" && strings.HasPrefix(line, verb+" ") {
			n++
		}
	}
	return n
}

// runRedisScript returns what docker was asked to do.
func runRedisScript(t *testing.T, args ...string) []string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte(docker), 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	command := exec.CommandContext(t.Context(), "scripts/redis.sh", args...)
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DOCKER_LOG="+log)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}
