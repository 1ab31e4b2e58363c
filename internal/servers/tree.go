package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// children returns the processes whose parent is pid, zombies left out.
func children(pid int) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var found []int
	for _, path := range stats {
		id, state, parent := readStat(path)
		if parent == pid && state != 'Z' && state != 'X' {
			found = append(found, id)
		}
	}
	return found
}

// readStat returns pid, state and parent from a /proc stat file, zeros when
// the process is gone. The command name between parentheses may hold anything,
// so the fields are counted from the last one.
func readStat(path string) (pid int, state byte, parent int) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, 0, 0
	}
	end := bytes.LastIndexByte(text, ')')
	begin := bytes.IndexByte(text, ' ')
	fields := bytes.Fields(text[end+1:])
	if begin < 0 || len(fields) < 2 {
		return 0, 0, 0
	}
	pid, _ = strconv.Atoi(string(text[:begin]))
	parent, _ = strconv.Atoi(string(fields[1]))
	return pid, fields[0][0], parent
}

// stopTree stops a process and its children. The parent goes first: while it
// is stopped it neither forks nor reaps, so the list stays true.
func stopTree(p *process) ([]int, error) {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	if err := waitStopped(p); err != nil {
		return nil, err
	}
	kids := children(p.pid)
	return kids, signalAll(kids, syscall.SIGSTOP)
}

// continueTree undoes stopTree, children first.
func continueTree(p *process) error {
	err := signalAll(children(p.pid), syscall.SIGCONT)
	return errors.Join(err, p.signal(syscall.SIGCONT))
}

// killTree ends a process and its children and waits until all are gone.
func killTree(p *process) error {
	kids, err := stopTree(p)
	if err != nil {
		return errors.Join(err, p.kill())
	}
	if err := errors.Join(p.kill(), signalAll(kids, syscall.SIGKILL)); err != nil {
		return err
	}
	return waitGone(kids)
}

// waitStopped returns once the process is stopped or gone; SIGSTOP is
// delivered a moment after it was sent.
func waitStopped(p *process) error {
	stat := fmt.Sprintf("/proc/%d/stat", p.pid)
	return poll(killWait, func() error {
		if _, state, _ := readStat(stat); p.exited() || state == 'T' || state == 'Z' || state == 0 {
			return nil
		}
		return fmt.Errorf("process %d does not stop", p.pid)
	})
}

// waitGone returns once none of the processes runs. Whoever adopted them may
// not have reaped them yet, so a zombie counts as gone.
func waitGone(pids []int) error {
	return poll(killWait, func() error {
		for _, pid := range pids {
			_, state, _ := readStat(fmt.Sprintf("/proc/%d/stat", pid))
			if state != 0 && state != 'Z' && state != 'X' {
				return fmt.Errorf("process %d still runs", pid)
			}
		}
		return nil
	})
}

func signalAll(pids []int, sig syscall.Signal) error {
	var failed error
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			failed = errors.Join(failed, fmt.Errorf("servers: send %v to %d: %w", sig, pid, err))
		}
	}
	return failed
}

// poll asks every few milliseconds until it gets nil; after limit it returns
// the last answer.
func poll(limit time.Duration, ask func() error) error {
	end := time.Now().Add(limit)
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("servers: %w after %s", err, limit)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
