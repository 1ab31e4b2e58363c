package testenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/internal/servers"
)

// StandbyName is what a standby calls itself to its primary.
const StandbyName = servers.StandbyName

// PostgresServer is a database for a test or a program, on a server of its own
// or on a shared one.
type PostgresServer struct {
	own    *servers.Postgres // nil: shared or not ours
	url    string
	refuse error // why the server may not be harmed, with own nil
}

// shared is the one server that the tests of a binary have in common.
var shared sharedPostgres

type sharedPostgres struct {
	mu     sync.Mutex
	server *servers.Postgres
	err    error
}

// get starts the server at the first call; a failure is final too, so that
// each test does not wait for it again.
func (s *sharedPostgres) get() (*servers.Postgres, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil && s.err == nil {
		// Not the context of the test that happens to come first.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.server, s.err = servers.StartPostgres(ctx, PostgresOptions{NoFsync: true})
	}
	return s.server, s.err
}

func (s *sharedPostgres) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		return nil
	}
	server := s.server
	s.server = nil
	return server.Close()
}

// StartPostgres starts a Postgres server and returns once it answers. ctx
// bounds the start only; the server lives until Close.
func StartPostgres(ctx context.Context, o PostgresOptions) (*PostgresServer, error) {
	own, err := servers.StartPostgres(ctx, o)
	if err != nil {
		return nil, err
	}
	return &PostgresServer{own: own, url: own.URL()}, nil
}

// Postgres returns an empty database of the test's own, dropped with it, on a
// server that all tests of the binary share (or that
// REDFENCE_TEST_POSTGRES_URL names). It needs [Main] to stop that server in
// good order.
func Postgres(t testing.TB) *PostgresServer {
	t.Helper()
	if admin := os.Getenv(postgresVariable); admin != "" {
		return newDatabase(t, admin, errNotOurs)
	}
	server, err := shared.get()
	if err != nil {
		unavailable(t, err)
	}
	return newDatabase(t, server.URL(), errors.New("testenv: other tests share this Postgres: use OwnPostgres to kill, pause or restart one"))
}

// OwnPostgres returns a server of the test's own, for tests that kill, pause
// or restart it. With REDFENCE_TEST_POSTGRES_URL set it returns a database
// there, and such a test fails.
func OwnPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	if admin := os.Getenv(postgresVariable); admin != "" {
		return newDatabase(t, admin, errNotOurs)
	}
	server, err := StartPostgres(t.Context(), PostgresOptions{NoFsync: true})
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close Postgres: %v", err)
		}
	})
	return server
}

// Standby returns a streaming standby of a server that [OwnPostgres] returned.
// Its name in synchronous_standby_names is [StandbyName].
func Standby(t testing.TB, primary *PostgresServer) *PostgresServer {
	t.Helper()
	if primary.own == nil {
		t.Fatal(primary.refuse)
	}
	own, err := primary.own.StartStandby(t.Context())
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := own.Close(); err != nil {
			t.Errorf("close the standby: %v", err)
		}
	})
	return &PostgresServer{own: own, url: own.URL()}
}

// Pooler returns the URL of a database through a pgbouncer of the test's own
// in transaction mode, and with the setting that such a pooler asks of pgx.
func Pooler(t testing.TB, database *PostgresServer) string {
	t.Helper()
	pooler, err := servers.StartPooler(t.Context(), database.URL())
	if err != nil {
		unavailable(t, err)
	}
	t.Cleanup(func() {
		if err := pooler.Close(); err != nil {
			t.Errorf("close pgbouncer: %v", err)
		}
	})
	return pooler.URL() + "&default_query_exec_mode=exec"
}

// newDatabase creates a database through the admin URL and drops it at the
// end of the test.
func newDatabase(t testing.TB, admin string, refuse error) *PostgresServer {
	t.Helper()
	name := "redfence_test_" + strings.ToLower(rand.Text())
	target, err := withDatabase(admin, name)
	if err == nil {
		err = execute(admin, "CREATE DATABASE "+name)
	}
	if err != nil {
		t.Fatalf("testenv: create a database: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("testenv: drop the database: %v", err)
		}
	})
	return &PostgresServer{url: target, refuse: refuse}
}

// withDatabase returns the URL with another database in it.
func withDatabase(raw, name string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return "", fmt.Errorf("%s must be a postgres:// URL", postgresVariable)
	}
	u.Path = "/" + name
	return u.String(), nil
}

func execute(admin, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// URL returns the postgres:// URL of the database; it stays the same across
// restarts.
func (p *PostgresServer) URL() string { return p.url }

// Pid returns the postmaster's process id, 0 while the server is down or not
// the caller's own.
func (p *PostgresServer) Pid() int {
	if p.own == nil {
		return 0
	}
	return p.own.Pid()
}

// Kill ends postmaster and children with SIGKILL and waits until all are gone.
func (p *PostgresServer) Kill() error { return p.harm((*servers.Postgres).Kill) }

// Pause stops postmaster and children with SIGSTOP: connections stay open,
// nothing answers.
func (p *PostgresServer) Pause() error { return p.harm((*servers.Postgres).Pause) }

// Resume lets a paused server go on.
func (p *PostgresServer) Resume() error { return p.harm((*servers.Postgres).Resume) }

// Restart kills the server if it runs and starts it again with its data on the
// same port.
func (p *PostgresServer) Restart() error { return p.harm((*servers.Postgres).Restart) }

// Promote makes a standby a primary and returns when it takes writes. Its old
// primary is not told.
func (p *PostgresServer) Promote(ctx context.Context) error {
	return p.harm(func(own *servers.Postgres) error { return own.Promote(ctx) })
}

// Close ends a server of one's own; another's stays. It is idempotent.
func (p *PostgresServer) Close() error {
	if p.own == nil {
		return nil
	}
	return p.own.Close()
}

func (p *PostgresServer) harm(do func(*servers.Postgres) error) error {
	if p.own == nil {
		return p.refuse
	}
	return do(p.own)
}
