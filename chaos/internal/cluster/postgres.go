package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redfence/redfence/chaos/internal/history"
)

func (c *Local) doPostgres(ctx context.Context, a history.Action) (string, error) {
	p := c.stores.Postgres
	switch a.Kind {
	case history.KillPostgres:
		return killed(ctx, p.Pid(), p.Kill, p.Addr())
	case history.StartPostgres:
		if err := p.Restart(); err != nil {
			return "", err
		}
		return fmt.Sprintf("process %d answers after recovery", p.Pid()), nil
	case history.StopPostgres:
		return "stopped with its children", p.Pause()
	case history.WakePostgres:
		return "continued", p.Resume()
	case history.RefuseInstances:
		return c.stores.refuse(ctx)
	case history.AdmitInstances:
		return "limit lifted", p.Exec(ctx, "ALTER ROLE "+roleName+" CONNECTION LIMIT -1")
	case history.LockTable:
		return c.stores.hold(ctx, "LOCK TABLE idempotency_keys IN ACCESS EXCLUSIVE MODE")
	case history.LockRows:
		return c.stores.hold(ctx, "SELECT 1 FROM idempotency_keys WHERE state = 'processing' FOR UPDATE")
	case history.FillDisk, history.FreeDisk:
		return c.doDisk(ctx, a)
	}
	return "", fmt.Errorf("unknown action %q", a.Kind)
}

// refuse lets the instances no longer connect, ends their sessions, and tries
// to connect as they do.
func (s *Stores) refuse(ctx context.Context) (string, error) {
	if err := s.Postgres.Exec(ctx, "ALTER ROLE "+roleName+" CONNECTION LIMIT 0"); err != nil {
		return "", err
	}
	ended, err := ask[struct{ Count int }](ctx, s,
		"SELECT count(pg_terminate_backend(pid)) AS count FROM pg_stat_activity WHERE usename = '"+roleName+"'")
	if err != nil {
		return "", err
	}
	url, err := s.instanceURL()
	if err != nil {
		return "", err
	}
	conn, err := pgx.Connect(ctx, url)
	if err == nil {
		return "", errors.Join(errors.New("the role can still connect"), conn.Close(ctx))
	}
	return fmt.Sprintf("%d sessions ended; %v", ended[0].Count, err), nil
}

// holdFor is how long a lock in Postgres is held: longer than half a lease.
const holdFor = 1500 * time.Millisecond

// hold locks in a transaction for a while and counts who waits for it.
func (s *Stores) hold(ctx context.Context, statement string) (proof string, err error) {
	conn, err := pgx.Connect(ctx, s.Postgres.URL())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // ends the transaction too
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return "", err
	}
	tag, err := conn.Exec(ctx, statement)
	if err != nil {
		return "", lockFailed(err)
	}
	most := 0
	for end := time.Now().Add(holdFor); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(holdFor / 30) {
		waiting, err := ask[struct{ Count int }](ctx, s, fmt.Sprintf(
			"SELECT count(*) AS count FROM pg_stat_activity WHERE %d = ANY(pg_blocking_pids(pid))", conn.PgConn().PID()))
		if err != nil {
			return "", err
		}
		most = max(most, waiting[0].Count)
	}
	if most == 0 {
		return "", fmt.Errorf("%s, held for %v: %w", tag, holdFor, history.ErrMissed)
	}
	return fmt.Sprintf("%s, held for %v; at most %d sessions waited", tag, holdFor, most), nil
}

// lockFailed says that a lock was none: Postgres took it back to end a circle
// of waiters, or a baseline has no such table.
func lockFailed(err error) error {
	var failed *pgconn.PgError
	if errors.As(err, &failed) && (failed.Code == "40P01" || failed.Code == "42P01") {
		return fmt.Errorf("%w: %w", history.ErrMissed, err)
	}
	return err
}
