package servers

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Pooler is a pgbouncer of our own in transaction mode: each transaction of a
// client may meet another connection to the server. All methods are safe for
// concurrent use.
type Pooler struct {
	folder *folder
	port   *port
	proc   *process
	cred   *syscall.Credential
	server *url.URL

	closing sync.Once
	failed  error // what Close returns
}

// StartPooler starts a pgbouncer in front of the Postgres server that a
// postgres:// URL leads to, for the user of the URL and every database, and
// returns once it answers. ctx bounds the start only; it lives until Close.
func StartPooler(ctx context.Context, server string) (*Pooler, error) {
	binary, err := poolerBinary()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("servers: the server of a pooler must be a postgres:// URL") // the text may hold a password
	}
	cred, err := serverUser() // pgbouncer refuses to run as root, too
	if err != nil {
		return nil, err
	}
	home, err := newFolder("pooler")
	if err != nil {
		return nil, err
	}
	p := &Pooler{folder: home, cred: cred, server: u}
	err = onFreePort(func(at *port) error {
		p.port = at
		return p.start(ctx, binary)
	})
	if err != nil {
		return nil, errors.Join(err, home.remove())
	}
	register(p)
	return p, nil
}

// poolerBinary finds pgbouncer: in PATH, else where Debian's package keeps it,
// which is not in everybody's PATH.
func poolerBinary() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("servers: pgbouncer is %w: run `make setup`, or put it in PATH", ErrNotInstalled)
}

func (p *Pooler) start(ctx context.Context, binary string) error {
	config, err := p.configure()
	if err != nil {
		return err
	}
	p.proc, err = spawn(spec{path: binary, args: []string{config}, dir: p.folder.path, log: p.folder.join("log"), cred: p.cred})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := ready(ctx, p.proc, p.answers); err != nil {
		return errors.Join(fmt.Errorf("servers: pgbouncer on %s: %w", p.port.addr(), err), p.proc.kill())
	}
	return nil
}

// configure writes the configuration and the file of users, for the eyes of
// the pooler's own user.
func (p *Pooler) configure() (config string, err error) {
	host, port := p.server.Hostname(), p.server.Port()
	if port == "" {
		port = "5432"
	}
	password, _ := p.server.User.Password()
	users := fmt.Sprintf("%s %s\n", quoteUser(p.server.User.Username()), quoteUser(password))
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = plain
auth_file = %s
pool_mode = transaction
default_pool_size = 8
max_client_conn = 200
`, host, port, p.port.number, p.folder.join("users"))
	for name, content := range map[string]string{"users": users, "pooler.ini": text} {
		if err := os.WriteFile(p.folder.join(name), []byte(content), 0o600); err != nil {
			return "", fmt.Errorf("servers: configure pgbouncer: %w", err)
		}
		if p.cred == nil {
			continue
		}
		if err := os.Chown(p.folder.join(name), int(p.cred.Uid), int(p.cred.Gid)); err != nil {
			return "", fmt.Errorf("servers: hand %s to pgbouncer's user: %w", name, err)
		}
	}
	return p.folder.join("pooler.ini"), nil
}

func quoteUser(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

func (p *Pooler) answers(ctx context.Context, _ *process) error {
	conn, err := pgx.Connect(ctx, p.URL()+"&default_query_exec_mode=exec")
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, "SELECT 1")
	return err
}

// URL returns the URL of the server's database, through the pooler.
func (p *Pooler) URL() string {
	u := *p.server
	u.Host, u.RawQuery = p.port.addr(), "sslmode=disable"
	return u.String()
}

// Close ends the pooler and removes its folder. It is idempotent.
func (p *Pooler) Close() error {
	p.closing.Do(func() {
		unregister(p)
		p.failed = errors.Join(p.proc.kill(), p.folder.remove())
		p.port.release()
	})
	return p.failed
}
