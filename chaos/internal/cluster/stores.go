package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/internal/servers"
)

// Stores are Redis nodes and Postgres, each a process on this machine.
type Stores struct {
	Redis    []*servers.Redis
	Postgres *servers.Postgres

	role bool // the instances have one of their own
}

// StartStores starts them. An error means that nothing is left running.
func StartStores(ctx context.Context, nodes int) (*Stores, error) {
	s := &Stores{Redis: make([]*servers.Redis, nodes)}
	group, started := errgroup.WithContext(ctx)
	for i := range s.Redis {
		group.Go(func() (err error) {
			s.Redis[i], err = servers.StartRedis(started, servers.RedisOptions{})
			return err
		})
	}
	group.Go(func() (err error) {
		s.Postgres, err = servers.StartPostgres(started, servers.PostgresOptions{})
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close ends them.
func (s *Stores) Close() error {
	var failed error
	for _, node := range s.Redis {
		if node != nil {
			failed = errors.Join(failed, node.Close())
		}
	}
	if s.Postgres != nil {
		failed = errors.Join(failed, s.Postgres.Close())
	}
	return failed
}

// The role of the instances. Limits of connections do not hold for the
// superuser, who looks on.
const (
	roleName     = "instances"
	rolePassword = "instances"
)

// addRole makes the role that instances connect as from now on.
func (s *Stores) addRole(ctx context.Context) error {
	const make = "CREATE ROLE " + roleName + " LOGIN PASSWORD '" + rolePassword + "'; GRANT ALL ON SCHEMA public TO " + roleName
	if err := s.Postgres.Exec(ctx, make); err != nil {
		return err
	}
	s.role = true
	return nil
}

// instanceURL is what instances would connect to without a link.
func (s *Stores) instanceURL() (string, error) {
	u, err := url.Parse(s.Postgres.URL())
	if err != nil {
		return "", err
	}
	if s.role {
		u.User = url.UserPassword(roleName, rolePassword)
	}
	return u.String(), nil
}

// Rows returns the ledger's rows of the keys.
func (s *Stores) Rows(ctx context.Context, keys []string) ([]history.Row, error) {
	ids := make([][]byte, len(keys))
	for i, key := range keys {
		ids[i] = []byte(key)
	}
	const query = "SELECT convert_from(id, 'UTF8') AS key, state, fence FROM idempotency_keys WHERE namespace = 'do' AND id = ANY($1)"
	return ask[history.Row](ctx, s, query, ids)
}

func (s *Stores) accounts(ctx context.Context) (*history.Accounts, error) {
	balances, err := ask[struct{ Balance int64 }](ctx, s, "SELECT balance FROM chaos_accounts ORDER BY id")
	if err != nil {
		return nil, err
	}
	a := &history.Accounts{Opening: instance.OpeningBalance}
	for _, b := range balances {
		a.Balances = append(a.Balances, b.Balance)
	}
	const query = `SELECT key, execution, source AS "from", target AS "to", amount FROM chaos_transfers`
	a.Transfers, err = ask[history.Transfer](ctx, s, query)
	return a, err
}

// ask returns the rows of a query.
func ask[T any](ctx context.Context, s *Stores, query string, args ...any) ([]T, error) {
	conn, err := pgx.Connect(ctx, s.Postgres.URL())
	if err != nil {
		return nil, fmt.Errorf("chaos: ask Postgres: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("chaos: ask Postgres: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

// locks returns the locks that are on the nodes now.
func (s *Stores) locks(ctx context.Context) ([]string, error) {
	var names []string
	for i, node := range s.Redis {
		keys, err := node.Client().Keys(ctx, "rf1:*:l").Result()
		if err != nil {
			return nil, fmt.Errorf("chaos: list the locks of node %d: %w", i, err)
		}
		for _, key := range keys {
			names = append(names, fmt.Sprintf("node %d: %s", i, key))
		}
	}
	return names, nil
}

// isLock reports whether a key of a node is a lock.
func isLock(key string) bool { return strings.HasPrefix(key, "rf1:") && strings.HasSuffix(key, ":l") }
