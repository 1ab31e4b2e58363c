package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresOptions say how to start a Postgres server.
type PostgresOptions struct {
	// NoFsync lets acknowledged commits live in the page cache only. They
	// survive a crash of Postgres, not one of the machine. Defaults to false.
	NoFsync bool
	// Settings are further server settings, which win over ours.
	Settings map[string]string
}

// Postgres is a Postgres server of our own: postmaster and children. All
// methods are safe for concurrent use.
type Postgres struct {
	options  PostgresOptions
	binaries string
	folder   *folder
	port     *port
	cred     *syscall.Credential
	password string

	mu     sync.Mutex // guards what follows
	proc   *process
	closed bool
}

// StartPostgres initialises a cluster (UTF-8, C locale), starts a server on it
// and returns once it answers. ctx bounds the start only; the server lives
// until Close. Root starts it as the user postgres, else nobody, because
// Postgres refuses to run as root.
func StartPostgres(ctx context.Context, o PostgresOptions) (*Postgres, error) {
	binaries, err := postgresFolder()
	if err != nil {
		return nil, err
	}
	cred, err := serverUser()
	if err != nil {
		return nil, err
	}
	home, err := newFolder("pg")
	if err != nil {
		return nil, err
	}
	p := &Postgres{options: o, binaries: binaries, folder: home, cred: cred, password: rand.Text()}
	if err := p.initialise(ctx); err != nil {
		return nil, errors.Join(err, home.remove())
	}
	return p.launch(ctx)
}

// launch starts a server for the first time, on a port that it finds.
func (p *Postgres) launch(ctx context.Context) (*Postgres, error) {
	register(p)
	err := onFreePort(func(at *port) error {
		p.port = at
		return p.start(ctx)
	})
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// serverUser returns whom to run Postgres as; nil means ourselves.
func serverUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("servers: user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("servers: Postgres refuses to run as root and there is neither a user postgres nor nobody: add one")
}

func (p *Postgres) data() string { return p.folder.join("data") }

// start runs the postmaster and waits until it answers. The caller holds mu or
// is the only one to know p.
func (p *Postgres) start(ctx context.Context) error {
	proc, err := spawn(spec{
		path: filepath.Join(p.binaries, "postgres"), args: p.args(),
		dir: p.data(), log: p.folder.join("log"), cred: p.cred,
	})
	if err != nil {
		return err
	}
	p.proc = proc
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := ready(ctx, proc, p.answers); err != nil {
		return errors.Join(fmt.Errorf("servers: postgres on %s: %w", p.port.addr(), err), killTree(proc))
	}
	return nil
}

func (p *Postgres) args() []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"tcp_keepalives_idle":     "30", // as doctor advises
		"port":                    strconv.Itoa(p.port.number),
		"unix_socket_directories": p.socketFolder(),
		"max_connections":         "300",
		"shared_buffers":          "64MB",
		// Memory that goes away with the folder, also after SIGKILL.
		"dynamic_shared_memory_type": "mmap",
		"log_checkpoints":            "off",
	}
	if p.options.NoFsync {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	for name, value := range p.options.Settings {
		settings[name] = value
	}
	names := make([]string, 0, len(settings))
	for name := range settings {
		names = append(names, name)
	}
	sort.Strings(names)
	args := []string{"-D", p.data()}
	for _, name := range names {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// socketFolder returns where the Unix socket goes; none where the path is too
// long for one.
func (p *Postgres) socketFolder() string {
	const longest = 107
	dir := p.folder.join("socket")
	if len(dir)+len("/.s.PGSQL.65535.lock") > longest {
		return ""
	}
	return dir
}

// answers checks that the server that answers on our port is ours: only ours
// knows the password, and its data folder is ours.
func (p *Postgres) answers(ctx context.Context, _ *process) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var dir string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&dir); err != nil {
		return err
	}
	if dir != p.data() {
		return errors.New("another server answers on this port")
	}
	return nil
}

// URL returns a postgres:// URL of the database postgres, with the password of
// its superuser; it stays the same across restarts.
func (p *Postgres) URL() string { return p.DatabaseURL("postgres") }

// Addr returns host:port; it stays the same across restarts.
func (p *Postgres) Addr() string { return p.port.addr() }

// DatabaseURL returns the URL of another database of this server.
func (p *Postgres) DatabaseURL(name string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", p.password),
		Host: p.port.addr(), Path: "/" + name, RawQuery: "sslmode=disable",
	}
	return u.String()
}

// User returns whom the server runs as.
func (p *Postgres) User() (uid, gid int) {
	if p.cred == nil {
		return os.Getuid(), os.Getgid()
	}
	return int(p.cred.Uid), int(p.cred.Gid)
}

// Pid returns the postmaster's process id, 0 while the server is down.
func (p *Postgres) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil || p.proc.exited() {
		return 0
	}
	return p.proc.pid
}

// Kill ends postmaster and children with SIGKILL and waits until all are gone.
// A server that is down already is not an error.
func (p *Postgres) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return killTree(p.proc)
}

// Pause stops postmaster and children with SIGSTOP: connections stay open,
// nothing answers.
func (p *Postgres) Pause() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := stopTree(p.proc)
	return err
}

// Resume lets a paused server go on.
func (p *Postgres) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return continueTree(p.proc)
}

// Restart kills the server if it runs and starts it again with its data on the
// same port; it returns once crash recovery is over.
func (p *Postgres) Restart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("servers: this Postgres is closed")
	}
	if err := killTree(p.proc); err != nil {
		return err
	}
	return p.start(context.Background())
}

// Close ends the server, whatever state it is in, and removes its folder. It
// is idempotent.
func (p *Postgres) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	unregister(p)
	failed := p.stop()
	failed = errors.Join(failed, p.folder.remove())
	if p.port != nil {
		p.port.release()
	}
	return failed
}

// stop asks for an immediate shutdown, which frees what the kernel would keep,
// and falls back to SIGKILL.
func (p *Postgres) stop() error {
	if p.proc == nil {
		return nil
	}
	if !p.proc.exited() {
		err := errors.Join(continueTree(p.proc), p.proc.signal(syscall.SIGQUIT))
		if err == nil && p.proc.wait(5*time.Second) == nil {
			return nil
		}
	}
	err := killTree(p.proc)
	releaseSharedMemory(p.data())
	return err
}

// Exec runs one statement on the database postgres, as the superuser.
func (p *Postgres) Exec(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return fmt.Errorf("servers: connect to our Postgres: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("servers: %s: %w", statement, err)
	}
	return nil
}
