package servers

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// StandbyName is what a standby calls itself to its primary, for
// synchronous_standby_names.
const StandbyName = "standby"

// StartStandby copies the server while it runs and starts the copy as a
// streaming standby, with a port and a folder of its own and the same options
// and password. It returns once the standby answers, and reads: whether it has
// all that was acknowledged is up to synchronous_standby_names of the primary.
// ctx bounds the start only; the standby lives until its own Close.
func (p *Postgres) StartStandby(ctx context.Context) (*Postgres, error) {
	if _, err := exec.LookPath(filepath.Join(p.binaries, "pg_basebackup")); err != nil {
		return nil, fmt.Errorf("servers: pg_basebackup is %w: add PostgreSQL's client programs to %s", ErrNotInstalled, p.binaries)
	}
	home, err := newFolder("pg")
	if err != nil {
		return nil, err
	}
	s := &Postgres{options: p.options, binaries: p.binaries, folder: home, cred: p.cred, password: p.password}
	err = s.makeFolders()
	if err == nil {
		err = s.tool(ctx, "pg_basebackup", []string{"PGPASSWORD=" + p.password}, "--pgdata", s.data(),
			"--dbname", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres application_name=%s", p.port.number, StandbyName),
			"--checkpoint", "fast", "--wal-method", "stream", "--no-sync", "--write-recovery-conf")
	}
	if err != nil {
		return nil, errors.Join(err, home.remove())
	}
	return s.launch(ctx)
}

// Promote makes a standby a primary, on a timeline of its own, and returns when
// it takes writes. Its old primary is not told.
func (p *Postgres) Promote(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, p.URL())
	if err != nil {
		return fmt.Errorf("servers: connect to our standby: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	var done bool
	if err := conn.QueryRow(ctx, "SELECT pg_promote()").Scan(&done); err != nil {
		return fmt.Errorf("servers: promote the standby: %w", err)
	}
	if !done {
		return errors.New("servers: the standby was told to promote itself and has not done so")
	}
	return nil
}
