package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/redfence/redfence/internal/servers"
)

const demoNodes = 5

// demo is what `serve --demo` starts for itself.
type demo struct {
	upstream *demoUpstream
	nodes    []*servers.Redis
	postgres *servers.Postgres
}

// startDemo starts the demo upstream, and the servers that the flags do not
// name, and fills in the flags. out is told of each execution.
func startDemo(ctx context.Context, c *serveCommand, out io.Writer) (*demo, error) {
	d := new(demo)
	group, starting := errgroup.WithContext(ctx)
	if len(c.Redis) == 0 {
		d.nodes = make([]*servers.Redis, demoNodes)
		for i := range d.nodes {
			group.Go(func() (err error) {
				d.nodes[i], err = servers.StartRedis(starting, servers.RedisOptions{AppendOnly: true})
				return err
			})
		}
	}
	if c.Database == "" {
		group.Go(func() (err error) {
			d.postgres, err = servers.StartPostgres(starting, servers.PostgresOptions{})
			return err
		})
	}
	err := group.Wait()
	if err == nil {
		d.upstream, err = startDemoUpstream(out, c.DemoRecorder)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	for _, node := range d.nodes {
		c.Redis = append(c.Redis, node.URL())
	}
	if d.postgres != nil {
		c.Database = d.postgres.URL()
	}
	c.Upstream = d.upstream.addr
	return d, nil
}

// environment returns the addresses as assignments for a shell.
func environment(c *serveCommand) string {
	return fmt.Sprintf("export REDIS_URL='%s'\nexport DATABASE_URL='%s'\n", strings.Join(c.Redis, ","), c.Database)
}

// close ends what was started.
func (d *demo) close() error {
	var errs []error
	if d.upstream != nil {
		errs = append(errs, d.upstream.close())
	}
	for _, node := range d.nodes {
		if node != nil {
			errs = append(errs, node.Close())
		}
	}
	if d.postgres != nil {
		errs = append(errs, d.postgres.Close())
	}
	return errors.Join(errs...)
}
