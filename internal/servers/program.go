package servers

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// ProgramOptions say which program to start.
type ProgramOptions struct {
	// Path of the binary. Required.
	Path string
	// Args are its arguments.
	Args []string
	// Env are variables beside PATH, LC_ALL, TZ and HOME, as NAME=value;
	// nothing else is inherited.
	Env []string
	// Dir is its working folder. Required.
	Dir string
	// Log is the file that its output is appended to. Required.
	Log string
}

// Program is a process of our own that is no server we know: it dies with us
// and is signalled by its id only. All methods are safe for concurrent use.
type Program struct{ proc *process }

// StartProgram starts a program.
func StartProgram(o ProgramOptions) (*Program, error) {
	proc, err := spawn(spec{path: o.Path, args: o.Args, env: o.Env, dir: o.Dir, log: o.Log})
	if err != nil {
		return nil, err
	}
	p := &Program{proc: proc}
	register(p)
	return p, nil
}

// Ready asks until the program is ready, has ended, or ctx is done.
func (p *Program) Ready(ctx context.Context, ask func(context.Context) error) error {
	return ready(ctx, p.proc, func(ctx context.Context, _ *process) error { return ask(ctx) })
}

// Pid returns the process id, 0 once it has ended.
func (p *Program) Pid() int {
	if p.proc.exited() {
		return 0
	}
	return p.proc.pid
}

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.proc.done }

// Kill ends the program with SIGKILL and waits until it is gone.
func (p *Program) Kill() error { return p.proc.kill() }

// Pause stops the program with SIGSTOP.
func (p *Program) Pause() error {
	if err := p.proc.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(p.proc)
}

// Resume lets a paused program go on.
func (p *Program) Resume() error { return p.proc.signal(syscall.SIGCONT) }

// Stop asks the program to end with SIGTERM and waits; after limit it is
// killed, which is an error.
func (p *Program) Stop(limit time.Duration) error {
	err := errors.Join(p.Resume(), p.proc.signal(syscall.SIGTERM))
	if err != nil {
		return err
	}
	if p.proc.wait(limit) != nil {
		return errors.Join(fmt.Errorf("servers: process %d did not end within %s of SIGTERM: %s", p.proc.pid, limit, p.proc.logTail()), p.Close())
	}
	unregister(p)
	return nil
}

// Close kills the program, whatever state it is in. It is idempotent.
func (p *Program) Close() error {
	unregister(p)
	return p.proc.kill()
}
