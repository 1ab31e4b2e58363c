package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// killWait bounds how long a process may take to vanish after SIGKILL.
const killWait = 10 * time.Second

// process is one child. It dies with the process that started it.
type process struct {
	pid  int
	os   *os.Process
	done chan struct{} // closed once the child has been waited for
	err  error         // how it ended; read after done
	log  string        // file that takes its output
}

// spec says what to start and as whom.
type spec struct {
	path string
	args []string
	env  []string // beside the few that everybody gets
	dir  string
	log  string
	cred *syscall.Credential // nil: as ourselves
}

// spawn starts a child and waits for it in the background. The parent-death
// signal follows the thread that forked, not the process, so the goroutine
// that forks stays on its thread until the child is gone.
func spawn(s spec) (*process, error) {
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("servers: open the log of %s: %w", s.path, err)
	}
	cmd := exec.Command(s.path, s.args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC", "HOME=" + s.dir}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // Ctrl-C in a terminal is for the parent, which then ends its servers in order
		Credential: s.cred,
	}
	p := &process{done: make(chan struct{}), log: s.log}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
		err := cmd.Start()
		_ = out.Close()
		if err == nil {
			p.os, p.pid = cmd.Process, cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("servers: start %s: %w", s.path, err)
	}
	return p, nil
}

// exited reports whether the child is gone.
func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends sig; a child that is gone is not an error.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.os.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("servers: send %v to %d: %w", sig, p.pid, err)
	}
	return nil
}

// kill ends the child with SIGKILL and waits until it is gone.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return p.wait(killWait)
}

// wait returns once the child is gone, or with an error after limit.
func (p *process) wait(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("servers: process %d still runs after %s", p.pid, limit)
	}
}

// logTail returns the end of what the child has printed, on one line.
func (p *process) logTail() string {
	const limit = 600
	text, err := os.ReadFile(p.log)
	if err != nil {
		return "no log: " + err.Error()
	}
	if len(text) > limit {
		text = text[len(text)-limit:]
	}
	return strings.Join(strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' }), " | ")
}
