package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/proxy"
	"github.com/redfence/redfence/internal/servers"
)

// Local is a cluster of processes on this machine. Each instance reaches each
// store through a link of its own.
type Local struct {
	options   Options
	nodes     []*servers.Redis
	postgres  *servers.Postgres
	instances []*member
}

type member struct {
	program *servers.Program
	url     string
	links   []*proxy.Link // to the nodes, in order, then to Postgres
}

// StartLocal starts a cluster of processes, with the instance binary that
// Build has made. An error means that nothing is left running.
func StartLocal(ctx context.Context, binary string, o Options) (*Local, error) {
	c := &Local{options: o, nodes: make([]*servers.Redis, o.Nodes), instances: make([]*member, o.Instances)}
	group, started := errgroup.WithContext(ctx)
	for i := range c.nodes {
		group.Go(func() (err error) {
			c.nodes[i], err = servers.StartRedis(started, servers.RedisOptions{})
			return err
		})
	}
	group.Go(func() (err error) {
		c.postgres, err = servers.StartPostgres(started, servers.PostgresOptions{})
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	for i := range c.instances { // the first one migrates the schema
		if err := c.startInstance(ctx, binary, i); err != nil {
			return nil, errors.Join(fmt.Errorf("chaos: instance %d: %w", i, err), c.Close())
		}
	}
	return c, nil
}

// startInstance starts one engine process and waits until it serves.
func (c *Local) startInstance(ctx context.Context, binary string, number int) error {
	in := &member{}
	c.instances[number] = in
	urls := make([]string, len(c.nodes))
	for i, node := range c.nodes {
		link, err := in.link(node.Addr())
		if err != nil {
			return err
		}
		urls[i] = "redis://" + link.Addr()
	}
	config, err := pgx.ParseConfig(c.postgres.URL())
	if err != nil {
		return err
	}
	link, err := in.link(fmt.Sprintf("%s:%d", config.Host, config.Port))
	if err != nil {
		return err
	}
	database := strings.Replace(c.postgres.URL(), fmt.Sprintf("%s:%d", config.Host, config.Port), link.Addr(), 1)

	dir := filepath.Join(c.options.Dir, fmt.Sprintf("instance-%d", number))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	address := filepath.Join(dir, "address")
	in.program, err = servers.StartProgram(servers.ProgramOptions{
		Path: binary, Dir: dir, Log: filepath.Join(dir, "log"),
		Args: []string{"-name", fmt.Sprintf("instance-%d", number), "-recorder", c.options.Recorder, "-address-file", address},
		Env: []string{
			"REDIS_URL=" + strings.Join(urls, ","), "DATABASE_URL=" + database,
			"REDFENCE_MUTANT=" + c.options.Mutant,
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return in.program.Ready(ctx, func(context.Context) error {
		text, err := os.ReadFile(address)
		in.url = "http://" + string(text)
		return err
	})
}

func (in *member) link(target string) (*proxy.Link, error) {
	link, err := proxy.New(target)
	if err == nil {
		in.links = append(in.links, link)
	}
	return link, err
}

// Instances implements Cluster.
func (c *Local) Instances() []string {
	urls := make([]string, len(c.instances))
	for i, in := range c.instances {
		urls[i] = in.url
	}
	return urls
}

// Nodes implements Cluster.
func (c *Local) Nodes() int { return len(c.nodes) }

// KillNode implements Cluster with SIGKILL.
func (c *Local) KillNode(ctx context.Context, node int) (string, error) {
	pid := c.nodes[node].Pid()
	if pid == 0 {
		return "", fmt.Errorf("chaos: node %d is down already", node)
	}
	if err := c.nodes[node].Kill(); err != nil {
		return "", err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", c.nodes[node].Addr())
	if err == nil {
		return "", errors.Join(fmt.Errorf("chaos: node %d accepts connections after SIGKILL", node), conn.Close())
	}
	return fmt.Sprintf("process %d waited for; %v", pid, err), nil
}

// RestartNode implements Cluster.
func (c *Local) RestartNode(ctx context.Context, node int) (string, error) {
	if err := c.nodes[node].Restart(); err != nil {
		return "", err
	}
	if err := c.nodes[node].Client().Ping(ctx).Err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d started on an empty folder and answers PING", c.nodes[node].Pid()), nil
}

// Rows implements Cluster.
func (c *Local) Rows(ctx context.Context, keys []string) ([]history.Row, error) {
	conn, err := pgx.Connect(ctx, c.postgres.URL())
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

// Health implements Cluster.
func (c *Local) Health() error {
	var failed error
	if c.postgres.Pid() == 0 {
		failed = errors.New("chaos: Postgres has ended by itself")
	}
	for i, in := range c.instances {
		if in.program.Pid() == 0 {
			failed = errors.Join(failed, fmt.Errorf("chaos: instance %d has ended by itself; see its log", i))
		}
	}
	return failed
}

// Close implements Cluster. Instances get the chance to drain.
func (c *Local) Close() error {
	var group errgroup.Group
	for _, in := range c.instances {
		if in != nil {
			group.Go(in.close)
		}
	}
	failed := group.Wait()
	for _, node := range c.nodes {
		if node != nil {
			failed = errors.Join(failed, node.Close())
		}
	}
	if c.postgres != nil {
		failed = errors.Join(failed, c.postgres.Close())
	}
	return failed
}

func (in *member) close() error {
	var failed error
	if in.program != nil {
		failed = in.program.Stop(15 * time.Second)
	}
	for _, link := range in.links {
		failed = errors.Join(failed, link.Close())
	}
	return failed
}
