package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Exec is a hook that calls a command of the user's with three arguments: the
// kind of the fault, the number of the node or instance from 0, and inject or
// heal. It must have happened when the command ends; the last line that it
// prints is kept as the proof.
type Exec struct {
	// Command is for the shell; the arguments come after it.
	Command string
}

// Do implements Hook.
func (e Exec) Do(ctx context.Context, fault history.Action, phase string) (proof string, err error) {
	out, err := output(ctx, "sh", "-c", e.Command+` "$@"`, "hook", fault.Kind, strconv.Itoa(fault.Number()), phase)
	if err != nil {
		return "", err
	}
	if out == "" {
		return "the hook ended without an error", nil
	}
	return "the hook says: " + out, nil
}

// Limits of a command: its time, and how long what it has left behind may keep
// its output open.
const (
	commandLimit = time.Minute
	outputLimit  = time.Second
)

// output runs a command in a process group of its own and returns the last line
// that it prints.
func output(ctx context.Context, name string, args ...string) (last string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &complaint, outputLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) { // a server that it has started
		return "", fmt.Errorf("%s: %w: %s", strings.Join(append([]string{name}, args...), " "), err, lastLine(complaint.String()))
	}
	return lastLine(out.String()), nil
}

// longestProof is how much of a line is kept.
const longestProof = 200

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	return last[:min(len(last), longestProof)]
}
