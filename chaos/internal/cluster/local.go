package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/lock"
)

// Local is a cluster of processes on this machine. Each instance reaches each
// store through a link of its own.
type Local struct {
	stores *Stores
	engine string
	disk   *smallDisk // nil: none

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
	if err := c.prepare(ctx, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	bias := usualBias
	if o.Unbiased {
		bias = ""
	}
	for i := range o.Instances { // the first one migrates the schema
		name := fmt.Sprintf("instance-%d", i)
		m, err := StartMember(ctx, stores, MemberOptions{
			Binary: binary, Name: name, Dir: filepath.Join(o.Dir, name), Recorder: o.Recorder, Mutant: o.Mutant, Bias: bias,
			Args: []string{"-engine", c.engine, "-policy", o.Policy, "-lease", o.Lease.String(), "-transfers", "-redlock"},
		})
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		c.members = append(c.members, m)
	}
	return c, nil
}

// usualBias makes seldom things frequent in the instances: a lock that stops
// at a bare majority meets rivals that one of all nodes never meets.
const usualBias = "bare-majority=0.3"

// prepare makes the stores ready for the first instance.
func (c *Local) prepare(ctx context.Context, o Options) error {
	if err := c.stores.addRole(ctx); err != nil {
		return err
	}
	if o.SmallDisk > 0 {
		var err error
		if c.disk, err = newSmallDisk(ctx, c.stores.Postgres, o.SmallDisk); err != nil {
			return err
		}
	}
	clients := make([]redis.UniversalClient, len(c.stores.Redis))
	for i, node := range c.stores.Redis {
		clients[i] = node.Client()
	}
	return lock.Init(ctx, clients, lock.Config{MaxTTL: instance.RedlockMaxTTL, TTL: instance.LockTTL})
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

// Lockers implements Cluster. The baselines have none.
func (c *Local) Lockers() []string {
	if c.engine != baseline.Ours {
		return nil
	}
	return []string{history.EngineLock, history.Redlock}
}

// Transfers implements Cluster. The baselines have none.
func (c *Local) Transfers() bool { return c.engine == baseline.Ours }

// Accounts implements Cluster.
func (c *Local) Accounts(ctx context.Context) (*history.Accounts, error) {
	if c.engine != baseline.Ours {
		return nil, nil
	}
	return c.stores.accounts(ctx)
}

// Locks implements Cluster.
func (c *Local) Locks(ctx context.Context) ([]string, error) { return c.stores.locks(ctx) }

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
	failed := errors.Join(group.Wait(), c.stores.Close())
	if c.disk != nil {
		failed = errors.Join(failed, c.disk.close())
	}
	return failed
}
