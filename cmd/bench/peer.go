package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
)

// peerCommand as the first argument makes this program the other process of
// its parent: it does what the lines on its standard input say.
const peerCommand = "peer"

// A peerOrder is the first line that a peer reads.
type peerOrder struct {
	Role      string          `json:"role"`
	Contender string          `json:"contender"`
	Servers   contend.Servers `json:"servers"`
	Name      string          `json:"name"`
	Tally     string          `json:"tally,omitempty"`
	Callers   int             `json:"callers,omitempty"`
	// Duplicates is the share of a storm's requests whose id was used before.
	Duplicates float64       `json:"duplicates,omitempty"`
	Warm       time.Duration `json:"warm,omitempty"`
	For        time.Duration `json:"for,omitempty"`
}

// A peer is another process of this program.
type peer struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

// startPeer starts this program a second time and gives it its order. ctx
// ends it; so does the end of this process, which closes its input.
func startPeer(ctx context.Context, order peerOrder) (*peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &peer{command: exec.CommandContext(ctx, self, peerCommand)}
	p.command.Env = append(os.Environ(), peerVariable+"=1")
	p.command.Stderr = os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the parent
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start the other process: %w", err)
	}
	line, err := json.Marshal(order)
	if err == nil {
		err = p.say(string(line))
	}
	if err == nil {
		_, err = p.hear("ready")
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// peerVariable tells a test binary that it is to be a peer.
const peerVariable = "REDFENCE_BENCH_PEER"

func (p *peer) say(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// hear reads the next line, which begins with word, and returns the rest.
func (p *peer) hear(word string) (string, error) {
	if !p.out.Scan() {
		return "", errors.Join(errors.New("the other process has ended"), p.out.Err())
	}
	got, rest, _ := strings.Cut(p.out.Text(), " ")
	if got != word {
		return "", fmt.Errorf("the other process: %s", p.out.Text())
	}
	return rest, nil
}

// close lets the peer end and waits for it.
func (p *peer) close() error {
	return errors.Join(p.in.Close(), p.command.Wait())
}

// bePeer is the other process.
func bePeer(in io.Reader, out io.Writer) int {
	ctx := context.Background()
	lines := bufio.NewScanner(in)
	if err := obey(ctx, lines, out); err != nil {
		fmt.Fprintln(out, "error", err)
		return exitMissed
	}
	return exitOK
}

func obey(ctx context.Context, lines *bufio.Scanner, out io.Writer) error {
	if !lines.Scan() {
		return errors.New("no order")
	}
	var order peerOrder
	if err := json.Unmarshal(lines.Bytes(), &order); err != nil {
		return err
	}
	switch order.Role {
	case "wait":
		return waitInTurn(ctx, order, lines, out)
	case "storm":
		return beGust(ctx, order, lines, out)
	}
	return fmt.Errorf("unknown role %q", order.Role)
}

// waitInTurn locks the name whenever it is told to, and says when it had it.
func waitInTurn(ctx context.Context, order peerOrder, lines *bufio.Scanner, out io.Writer) (err error) {
	contenders := lockContenders()
	i := slices.IndexFunc(contenders, func(c contend.LockContender) bool { return c.Name == order.Contender })
	if i < 0 {
		return fmt.Errorf("unknown contender %q", order.Contender)
	}
	locker, err := contenders[i].Open(ctx, order.Servers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close()) }()
	fmt.Fprintln(out, "ready")
	for lines.Scan() {
		fmt.Fprintln(out, "waiting")
		unlock, err := locker.Lock(ctx, order.Name)
		if err != nil {
			return err
		}
		at := monotonic()
		if err := unlock(ctx); err != nil {
			return err
		}
		fmt.Fprintln(out, "held", int64(at))
	}
	return nil
}

// monotonic returns the time since boot, which all processes of a machine
// share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
