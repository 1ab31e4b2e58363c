package contend

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Advisory is Postgres' own session lock.
var Advisory = LockContender{
	Name:    "pg-advisory",
	Options: "pg_advisory_lock(hashtextextended(name)), pgx pool of 80 connections",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		pool, err := openPool(ctx, s.Postgres, 80)
		if err != nil {
			return nil, err
		}
		probes, err := openPool(ctx, s.Postgres, 4)
		if err != nil {
			pool.Close()
			return nil, err
		}
		return &advisoryLocker{pool: pool, probes: probes}, nil
	},
}

// LeaseRow is a row per lock with a time until which it is held.
var LeaseRow = LockContender{
	Name:    "pg-lease",
	Options: "INSERT … ON CONFLICT DO UPDATE WHERE lapsed, DELETE, poll every 100 ms, pgx pool of 80 connections",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		pool, err := openPool(ctx, s.Postgres, 80)
		if err != nil {
			return nil, err
		}
		if _, err = pool.Exec(ctx, leaseTable); err != nil {
			pool.Close()
			return nil, fmt.Errorf("pg-lease: %w", err)
		}
		return &leaseLocker{pool}, nil
	},
}

var (
	//go:embed sql/lease_table.sql
	leaseTable string
	//go:embed sql/lease_take.sql
	leaseTake string
	//go:embed sql/lease_drop.sql
	leaseDrop string
)

// openPool connects with at most conns connections and opens one.
func openPool(ctx context.Context, url string, conns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// advisoryLocker holds a connection as long as a lock. Probes have a pool of
// their own: with the callers' connections all in use they would wait for
// each other.
type advisoryLocker struct{ pool, probes *pgxpool.Pool }

func (l *advisoryLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	conn, err := l.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))", name); err != nil {
		conn.Release()
		return nil, err
	}
	return unlockAdvisory(conn, name), nil
}

func (l *advisoryLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	conn, err := l.probes.Acquire(ctx)
	if err != nil {
		return nil, false, err
	}
	var ok bool
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", name).Scan(&ok)
	if err != nil || !ok {
		conn.Release()
		return nil, false, err
	}
	return unlockAdvisory(conn, name), true, nil
}

func unlockAdvisory(conn *pgxpool.Conn, name string) Unlock {
	return func(ctx context.Context) error {
		defer conn.Release()
		var held bool
		err := conn.QueryRow(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", name).Scan(&held)
		if err == nil && !held {
			err = errors.New("pg-advisory: not held")
		}
		return err
	}
}

func (l *advisoryLocker) Close() error { l.pool.Close(); l.probes.Close(); return nil }

type leaseLocker struct{ pool *pgxpool.Pool }

func (l *leaseLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	for {
		unlock, ok, err := l.TryLock(ctx, name)
		if err != nil || ok {
			return unlock, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (l *leaseLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	token := rand.Text()
	var got string
	err := l.pool.QueryRow(ctx, leaseTake, name, token, leaseTime).Scan(&got)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return func(ctx context.Context) error { return l.drop(ctx, name, token) }, true, nil
}

func (l *leaseLocker) drop(ctx context.Context, name, token string) error {
	tag, err := l.pool.Exec(ctx, leaseDrop, name, token)
	if err == nil && tag.RowsAffected() == 0 {
		err = errors.New("pg-lease: no longer held")
	}
	return err
}

func (l *leaseLocker) Close() error { l.pool.Close(); return nil }
