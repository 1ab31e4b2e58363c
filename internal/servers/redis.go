package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// startLimit bounds how long a server may take to answer.
const startLimit = 30 * time.Second

// RedisOptions say how to start a redis-server.
type RedisOptions struct {
	// AppendOnly keeps the data across a crash: append-only file, fsync after
	// each command. Defaults to false: a restarted server is empty.
	AppendOnly bool
	// Args are further arguments for redis-server, after ours.
	Args []string
}

// Redis is a redis-server process of our own. All methods are safe for
// concurrent use.
type Redis struct {
	options RedisOptions
	binary  string
	folder  *folder
	port    *port
	client  *redis.Client

	mu     sync.Mutex // guards what follows
	proc   *process
	closed bool
}

// StartRedis starts an empty redis-server and returns once it answers. ctx
// bounds the start only; the server lives until Close.
//
// It never evicts, saves nothing unless asked to, and allows DEBUG, so that
// faults can be injected.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	binary, err := redisBinary()
	if err != nil {
		return nil, err
	}
	var r *Redis
	err = onFreePort(func(at *port) (err error) {
		r, err = startRedis(ctx, binary, o, at)
		return err
	})
	return r, err
}

// errEarlyExit is matched when a server ended before it answered.
var errEarlyExit = errors.New("ended before it answered")

func startRedis(ctx context.Context, binary string, o RedisOptions, at *port) (*Redis, error) {
	home, err := newFolder("redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{options: o, binary: binary, folder: home, port: at}
	r.client = redis.NewClient(NodeOptions(at.addr()))
	register(r)
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// NodeOptions returns the client options that the engine asks of a node:
// contexts honoured, no hidden retries of commands or connects.
func NodeOptions(addr string) *redis.Options {
	return &redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1}
}

// start runs the process and waits until it answers. The caller holds mu or
// is the only one to know r.
func (r *Redis) start(ctx context.Context) error {
	data := r.folder.join("data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return fmt.Errorf("servers: make the data folder: %w", err)
	}
	proc, err := spawn(spec{path: r.binary, args: r.args(data), dir: data, log: r.folder.join("log")})
	if err != nil {
		return err
	}
	r.proc = proc
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := ready(ctx, proc, r.answers); err != nil {
		return errors.Join(fmt.Errorf("servers: redis-server on %s: %w", r.port.addr(), err), proc.kill())
	}
	return nil
}

func (r *Redis) args(data string) []string {
	appendOnly := "no"
	if r.options.AppendOnly {
		appendOnly = "yes"
	}
	args := []string{
		"--bind", "127.0.0.1", "--port", strconv.Itoa(r.port.number), "--dir", data,
		"--save", "", "--appendonly", appendOnly, "--appendfsync", "always",
		"--maxmemory-policy", "noeviction", "--daemonize", "no",
	}
	if allowsDebugFlag(r.binary) {
		args = append(args, "--enable-debug-command", "yes")
	}
	return append(args, r.options.Args...)
}

// answers checks that the process that answers on our port is ours.
func (r *Redis) answers(ctx context.Context, proc *process) error {
	if err := listens(ctx, r.port.addr()); err != nil {
		return err // before the client logs it
	}
	info, err := r.client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", proc.pid)) {
		return errors.New("another program answers on this port")
	}
	return r.client.Ping(ctx).Err() // LOADING is no answer
}

// listens reports whether anything accepts connections there.
func listens(ctx context.Context, addr string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ready asks until the server answers, has ended, or ctx is done.
func ready(ctx context.Context, proc *process, ask func(context.Context, *process) error) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		attempt, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := ask(attempt, proc)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-proc.done:
			return fmt.Errorf("%w (%v): %s", errEarlyExit, proc.err, proc.logTail())
		case <-ctx.Done():
			return fmt.Errorf("%w: last answer: %v; log: %s", ctx.Err(), err, proc.logTail())
		case <-tick.C:
		}
	}
}

var debugFlags sync.Map // binary → bool

var majorVersion = regexp.MustCompile(`v=(\d+)\.`)

// allowsDebugFlag reports whether this server knows enable-debug-command
// (from 7.0 on; DEBUG is always allowed before).
func allowsDebugFlag(binary string) bool {
	if known, ok := debugFlags.Load(binary); ok {
		return known.(bool)
	}
	out, _ := exec.Command(binary, "--version").Output()
	match := majorVersion.FindSubmatch(out)
	knows := false
	if match != nil {
		major, _ := strconv.Atoi(string(match[1]))
		knows = major >= 7
	}
	debugFlags.Store(binary, knows)
	return knows
}

// Addr returns host:port; it stays the same across restarts.
func (r *Redis) Addr() string { return r.port.addr() }

// URL returns the address as redis://host:port.
func (r *Redis) URL() string { return "redis://" + r.port.addr() }

// Client returns a client for this server with [NodeOptions], shared by all
// callers and closed by Close.
func (r *Redis) Client() *redis.Client { return r.client }

// Pid returns the process id, 0 while the server is down.
func (r *Redis) Pid() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.proc == nil || r.proc.exited() {
		return 0
	}
	return r.proc.pid
}

// Kill ends the server with SIGKILL and waits until it is gone. One that is
// down already is not an error.
func (r *Redis) Kill() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc.kill()
}

// Pause stops the server with SIGSTOP: connections stay open, nothing answers.
func (r *Redis) Pause() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.proc.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return waitStopped(r.proc)
}

// Resume lets a paused server go on.
func (r *Redis) Resume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.proc.signal(syscall.SIGCONT)
}

// Restart kills the server if it runs and starts an empty one on the same
// port.
func (r *Redis) Restart() error { return r.restart(r.dropData) }

// RestartKeepingData starts the server again with what it had: what its
// append-only file holds, or, without one, what it can save now if it runs.
func (r *Redis) RestartKeepingData() error { return r.restart(r.saveData) }

func (r *Redis) restart(prepare func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("servers: this redis-server is closed")
	}
	if err := prepare(); err != nil {
		return err
	}
	return r.start(context.Background())
}

func (r *Redis) dropData() error {
	if err := r.proc.kill(); err != nil {
		return err
	}
	return os.RemoveAll(r.folder.join("data"))
}

func (r *Redis) saveData() error {
	if r.options.AppendOnly || r.proc.exited() {
		return r.proc.kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), killWait)
	defer cancel()
	if err := r.client.ShutdownSave(ctx).Err(); err != nil && !r.proc.exited() {
		if waitErr := r.proc.wait(killWait); waitErr != nil {
			return errors.Join(fmt.Errorf("servers: save and stop: %w", err), waitErr)
		}
	}
	return r.proc.wait(killWait)
}

// Close kills the server, whatever state it is in, and removes its folder. It
// is idempotent.
func (r *Redis) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	unregister(r)
	var failed error
	if r.proc != nil {
		failed = r.proc.kill()
	}
	failed = errors.Join(failed, r.client.Close(), r.folder.remove())
	r.port.release()
	return failed
}
