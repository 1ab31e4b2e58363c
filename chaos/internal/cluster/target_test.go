package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/chaos/internal/history"
)

// script writes a program to a folder.
func script(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// lines of a file that a script has written.
func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

func TestExecIsToldOfEachFaultAndMendsInTheEnd(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "break", `echo "$*" >> `+dir+`/log; echo noise; echo "seen to $3"`)
	target := NewTarget([]string{"http://x/"}, 3, Exec{Command: filepath.Join(dir, "break") + " staging"})
	do := func(a history.Action, want string) {
		t.Helper()
		if proof, err := target.Do(t.Context(), a); err != nil || proof != want {
			t.Errorf("%s: %q, %v", a, proof, err)
		}
	}
	do(history.Action{Kind: history.KillNode, Node: 2}, "the hook says: seen to 2") // $3 is the number: one argument came before
	do(history.Action{Kind: history.HoldReplies, Instance: 1}, "the hook says: seen to 1")
	do(history.Action{Kind: history.FlushNode, Node: 1}, "the hook says: seen to 1")
	do(history.Action{Kind: history.HealRedis, Instance: 1}, "the hook says: seen to 1")
	if _, err := target.Do(t.Context(), history.Action{Kind: history.RestartNode, Node: 0}); err == nil {
		t.Error("a node that was not broken was mended")
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	want := []string{
		"staging kill-node 2 inject", "staging hold-redis-replies 1 inject", "staging flush-node 1 inject", "staging hold-redis-replies 1 heal", "staging kill-node 2 heal",
	}
	if diff := cmp.Diff(want, lines(t, filepath.Join(dir, "log"))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestExecThatFailsSaysWhyAndIsUndone(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "break", `echo "$*" >> `+dir+`/log; echo "no such node" >&2; [ "$3" = heal ]`)
	target := NewTarget(nil, 1, Exec{Command: filepath.Join(dir, "break")})
	_, err := target.Do(t.Context(), history.Action{Kind: history.PauseNode})
	if err == nil || !strings.Contains(err.Error(), "no such node") {
		t.Errorf("error %v", err)
	}
	if err := target.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"pause-node 0 inject", "pause-node 0 heal"}, lines(t, filepath.Join(dir, "log"))); diff != "" {
		t.Error(diff)
	}
}

// TestExecMayLeaveAServerBehind: a hook that starts one again need not close
// its output.
func TestExecMayLeaveAServerBehind(t *testing.T) {
	proof, err := Exec{Command: "sleep 4 & echo started; true"}.Do(t.Context(), history.Action{Kind: history.KillNode}, Heal)
	if err != nil || proof != "the hook says: started" {
		t.Errorf("%q, %v", proof, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	if _, err := (Exec{Command: "true"}).Do(ctx, history.Action{Kind: history.KillNode}, Inject); err == nil {
		t.Error("a hook ran after the run had ended")
	}
}

// composeRig is a Compose whose docker is the fake, in its folder.
func composeRig(t *testing.T) (hook Compose, dir string) {
	t.Helper()
	dir = t.TempDir()
	fake, err := filepath.Abs("testdata/docker")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(fake, filepath.Join(dir, "docker")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER", dir)
	for _, service := range []string{"redis1", "redis2", "redis3", "gateway1", "gateway2", "postgres"} {
		if err := os.WriteFile(filepath.Join(dir, "state-"+service), []byte("running\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Compose{File: "some.yml"}, dir
}

func TestComposeDoesAndProvesEachFault(t *testing.T) {
	hook, dir := composeRig(t)
	if err := hook.Check(t.Context(), 3, 2); err != nil {
		t.Fatal(err)
	}
	if err := hook.Check(t.Context(), 5, 2); err == nil || !strings.Contains(err.Error(), "redis4 is missing; start the deployment first") {
		t.Errorf("a node that is not there: %v", err)
	}
	var want []string
	for _, c := range []struct{ kind, state, inject, heal, service string }{
		{history.KillNode, "exited", "kill -s KILL", "start", "redis2"}, {history.PauseNode, "paused", "pause", "unpause", "redis2"},
		{history.RebootNode, "running", "restart", "", "redis2"},
		{history.KillPostgres, "exited", "kill -s KILL", "start", "postgres"}, {history.StopPostgres, "paused", "pause", "unpause", "postgres"},
		{history.KillInstance, "exited", "kill -s KILL", "start", "gateway2"}, {history.StopInstance, "paused", "pause", "unpause", "gateway2"},
		{history.DrainInstance, "exited", "stop", "start", "gateway2"},
	} {
		a := history.Action{Kind: c.kind, Node: 1, Instance: 1}
		want = append(want, c.inject+" "+c.service)
		if proof, err := hook.Do(t.Context(), a, Inject); err != nil || proof != fmt.Sprintf("the container of %s is %s", c.service, c.state) {
			t.Errorf("%s: %q, %v", c.kind, proof, err)
		}
		if c.heal != "" {
			want = append(want, c.heal+" "+c.service)
			if proof, err := hook.Do(t.Context(), a, Heal); err != nil || proof != fmt.Sprintf("the container of %s is running", c.service) {
				t.Errorf("heal of %s: %q, %v", c.kind, proof, err)
			}
		}
	}
	if diff := cmp.Diff(want, lines(t, filepath.Join(dir, "log"))); diff != "" {
		t.Errorf("what docker compose was asked (-want +got):\n%s", diff)
	}
}

// TestComposeBelievesWhatItSees: docker says yes, and nothing happens.
func TestComposeBelievesWhatItSees(t *testing.T) {
	hook, dir := composeRig(t)
	script(t, dir, "stuck", "")
	if _, err := hook.Do(t.Context(), history.Action{Kind: history.KillNode}, Inject); err == nil || !strings.Contains(err.Error(), "redis1 is running, want exited") {
		t.Errorf("error %v", err)
	}
	if _, err := hook.Do(t.Context(), history.Action{Kind: history.CutRedis}, Inject); err == nil {
		t.Error("docker compose has cut a link")
	}
}
