package servers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func shell(t *testing.T, script string) (*Program, string) {
	t.Helper()
	dir := t.TempDir()
	p, err := StartProgram(ProgramOptions{
		Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"GREETING=hello"}, Dir: dir, Log: filepath.Join(dir, "log"),
	})
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	return p, filepath.Join(dir, "log")
}

// printed waits until the log holds a text.
func printed(t *testing.T, p *Program, log, text string) {
	t.Helper()
	must(t, p.Ready(t.Context(), func(context.Context) error {
		got, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(got), text) {
			err = errors.New("not printed yet")
		}
		return err
	}))
}

func TestProgramStopsInGoodOrder(t *testing.T) {
	p, log := shell(t, `trap 'echo bye; exit 0' TERM; echo $GREETING; while :; do sleep 0.01; done`)
	printed(t, p, log, "hello")
	must(t, p.Pause())
	must(t, p.Stop(10*time.Second))
	if got, _ := os.ReadFile(log); !strings.Contains(string(got), "bye") {
		t.Errorf("the program printed %q", got)
	}
	if p.Pid() != 0 {
		t.Errorf("Pid() = %d after Stop", p.Pid())
	}
}

func TestProgramThatDoesNotStopIsKilled(t *testing.T) {
	p, log := shell(t, `trap '' TERM; echo deaf; while :; do sleep 0.01; done`)
	printed(t, p, log, "deaf")
	if err := p.Stop(50 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "deaf") {
		t.Errorf("Stop: %v; want an error with its log", err)
	}
	<-p.Done()
}

func TestReadyEndsWithTheProgram(t *testing.T) {
	p, _ := shell(t, `echo nonsense >&2; exit 3`)
	err := p.Ready(t.Context(), func(context.Context) error { return errors.New("not ready") })
	if !errors.Is(err, errEarlyExit) || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("Ready: %v; want the reason", err)
	}
}
