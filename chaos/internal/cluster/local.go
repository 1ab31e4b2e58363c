package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/internal/servers"
)

// Stores are Redis nodes and Postgres, each a process on this machine.
type Stores struct {
	Redis    []*servers.Redis
	Postgres *servers.Postgres
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

// Rows returns the ledger's rows of the keys.
func (s *Stores) Rows(ctx context.Context, keys []string) ([]history.Row, error) {
	conn, err := pgx.Connect(ctx, s.Postgres.URL())
	if err != nil {
		return nil, fmt.Errorf("chaos: read the ledger: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	ids := make([][]byte, len(keys))
	for i, key := range keys {
		ids[i] = []byte(key)
	}
	const query = "SELECT convert_from(id, 'UTF8'), state, fence FROM idempotency_keys WHERE namespace = 'do' AND id = ANY($1)"
	rows, err := conn.Query(ctx, query, ids)
	if err != nil {
		return nil, fmt.Errorf("chaos: read the ledger: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (history.Row, error) {
		var r history.Row
		err := row.Scan(&r.Key, &r.State, &r.Fence)
		return r, err
	})
}

// Local is a cluster of processes on this machine. Each instance reaches each
// store through a link of its own.
type Local struct {
	stores *Stores
	engine string

	mu      sync.Mutex // guards members, which restarts replace
	members []*Member
}

// StartLocal starts a cluster of processes, with the instance binary that
// Build has made. An error means that nothing is left running.
func StartLocal(ctx context.Context, binary string, o Options) (*Local, error) {
	stores, err := StartStores(ctx, o.Nodes)
	if err != nil {
		return nil, err
	}
	c := &Local{stores: stores, engine: cmp.Or(o.Engine, baseline.Ours)}
	for i := range o.Instances { // the first one migrates the schema
		name := fmt.Sprintf("instance-%d", i)
		m, err := StartMember(ctx, stores, MemberOptions{
			Binary: binary, Name: name, Dir: filepath.Join(o.Dir, name), Recorder: o.Recorder, Mutant: o.Mutant,
			Args: []string{"-engine", c.engine, "-policy", o.Policy, "-lease", o.Lease.String()},
		})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.members = append(c.members, m)
	}
	return c, nil
}

func (c *Local) member(i int) *Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[i]
}

func (c *Local) replace(i int, m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members[i] = m
}

// Instances implements Cluster.
func (c *Local) Instances() []string {
	urls := make([]string, len(c.members))
	for i, m := range c.members {
		urls[i] = m.URL()
	}
	return urls
}

// Nodes implements Cluster.
func (c *Local) Nodes() int { return len(c.stores.Redis) }

// Rows implements Cluster. The baselines have none.
func (c *Local) Rows(ctx context.Context, keys []string) ([]history.Row, error) {
	if c.engine != baseline.Ours {
		return nil, nil
	}
	return c.stores.Rows(ctx, keys)
}

// Health implements Cluster.
func (c *Local) Health() error {
	var failed error
	if c.stores.Postgres.Pid() == 0 {
		failed = errors.New("chaos: Postgres has ended by itself")
	}
	for i, m := range c.members {
		if m.Program.Pid() == 0 {
			failed = errors.Join(failed, fmt.Errorf("chaos: instance %d has ended by itself; see its log", i))
		}
	}
	return failed
}

// Close implements Cluster. Instances get the chance to drain.
func (c *Local) Close() error {
	var group errgroup.Group
	for _, m := range c.members {
		group.Go(m.Stop)
	}
	return errors.Join(group.Wait(), c.stores.Close())
}
