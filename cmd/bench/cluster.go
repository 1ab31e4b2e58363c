package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
	"github.com/redfence/redfence/cmd/bench/internal/report"
	"github.com/redfence/redfence/internal/servers"
)

const nodeCount = 5

// cluster is the servers that a run uses: its own, or those that the command
// line names, which are never harmed.
type cluster struct {
	servers  contend.Servers
	nodes    []*servers.Redis // nil: not ours
	links    []*slowLink      // in front of the nodes, if any
	postgres *servers.Postgres
	clients  []*redis.Client // to ask for versions and processor time
}

func startCluster(ctx context.Context, o options) (*cluster, error) {
	c := &cluster{servers: contend.Servers{Postgres: o.postgres}}
	group, starting := errgroup.WithContext(ctx)
	var nodes []*servers.Redis
	if len(o.redis) == 0 {
		group.Go(func() (err error) {
			nodes, err = startNodes(starting)
			return err
		})
	} else if err := c.useRedis(o.redis); err != nil {
		return nil, err
	}
	if o.postgres == "" {
		group.Go(func() (err error) {
			c.postgres, err = servers.StartPostgres(starting, servers.PostgresOptions{})
			return err
		})
	}
	err := group.Wait()
	c.add(nodes)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	if c.postgres != nil {
		c.servers.Postgres = c.postgres.URL()
	}
	return c, nil
}

// startNodes starts Redis servers; the error of one ends the others.
func startNodes(ctx context.Context) ([]*servers.Redis, error) {
	nodes := make([]*servers.Redis, nodeCount)
	group, starting := errgroup.WithContext(ctx)
	for i := range nodes {
		group.Go(func() (err error) {
			nodes[i], err = servers.StartRedis(starting, servers.RedisOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		for _, node := range nodes {
			if node != nil {
				err = errors.Join(err, node.Close())
			}
		}
		return nil, err
	}
	return nodes, nil
}

// add makes the nodes the cluster's own.
func (c *cluster) add(nodes []*servers.Redis) {
	c.nodes = nodes
	for _, node := range nodes {
		c.servers.Redis = append(c.servers.Redis, node.Addr())
		c.clients = append(c.clients, node.Client())
	}
}

// link puts a link in front of each node.
func (c *cluster) link() error {
	for i, addr := range c.servers.Redis {
		l, err := newSlowLink(addr)
		if err != nil {
			return err
		}
		c.links = append(c.links, l)
		c.servers.Redis[i] = l.addr()
	}
	return nil
}

// useRedis takes addresses, as host:port or redis:// URLs without a password:
// not every contender can be given one.
func (c *cluster) useRedis(addrs []string) error {
	for _, addr := range addrs {
		if strings.Contains(addr, "://") {
			options, err := redis.ParseURL(addr)
			if err != nil {
				return fmt.Errorf("-redis: %w", err)
			}
			if options.Password != "" || options.TLSConfig != nil || options.DB != 0 {
				return errors.New("-redis: a password, TLS or a database number cannot be given to every contender; use plain nodes")
			}
			addr = options.Addr
		}
		c.servers.Redis = append(c.servers.Redis, addr)
		c.clients = append(c.clients, redis.NewClient(servers.NodeOptions(addr)))
	}
	return nil
}

// Close ends the servers that are ours.
func (c *cluster) Close() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.close())
	}
	for _, node := range c.nodes {
		errs = append(errs, node.Close())
	}
	if c.nodes == nil {
		for _, client := range c.clients {
			errs = append(errs, client.Close())
		}
	}
	if c.postgres != nil {
		errs = append(errs, c.postgres.Close())
	}
	return errors.Join(errs...)
}

// describe adds the servers' versions to the machine.
func (c *cluster) describe(ctx context.Context, m *report.Machine) {
	m.Redis = infoField(c.clients[0].Info(ctx, "server").Val(), "redis_version")
	conn, err := pgx.Connect(ctx, c.servers.Postgres)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close(ctx) }()
	_ = conn.QueryRow(ctx, "SHOW server_version").Scan(&m.Postgres)
}

// cpu returns the processor time that the servers have used so far: Redis
// tells it, Postgres' is read from the system when the server is ours. Nodes
// that do not answer are left out; what ends a round early does not matter.
func (c *cluster) cpu(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 200*time.Millisecond)
	defer cancel()
	var total time.Duration
	for _, client := range c.clients {
		info := client.Info(ctx, "cpu").Val()
		for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
			seconds, _ := strconv.ParseFloat(infoField(info, field), 64)
			total += time.Duration(seconds * float64(time.Second))
		}
	}
	if c.postgres != nil {
		total += treeCPU(c.postgres.Pid())
	}
	return total
}

// infoField returns one field of what INFO returned.
func infoField(info, field string) string {
	_, rest, _ := strings.Cut(info, field+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}
