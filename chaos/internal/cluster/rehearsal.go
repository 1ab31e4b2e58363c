package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

// Rehearsal is a cluster in this process: engines over one in-memory ledger,
// and nodes that are miniredis. No process can be killed in it and nothing is
// durable; it shows how a run goes where no servers are installed.
type Rehearsal struct {
	nodes    []*miniredis.Miniredis
	ledger   *fallback.Memory
	recorder *recorder.Client
	engines  []*redfence.Engine
	clients  []redis.UniversalClient
	servers  []*httptest.Server
	breakers []*instance.Breakers
}

// StartRehearsal starts a cluster in this process.
func StartRehearsal(ctx context.Context, o Options) (*Rehearsal, error) {
	c := &Rehearsal{ledger: fallback.NewMemory(), recorder: recorder.NewClient(o.Recorder)}
	for range o.Nodes {
		node := miniredis.NewMiniRedis()
		if err := node.Start(); err != nil {
			return nil, errors.Join(fmt.Errorf("chaos: miniredis: %w", err), c.Close())
		}
		c.nodes = append(c.nodes, node)
	}
	for i := range o.Instances {
		if err := c.startInstance(ctx, fmt.Sprintf("instance-%d", i)); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	return c, nil
}

func (c *Rehearsal) startInstance(ctx context.Context, name string) error {
	var nodes []redis.UniversalClient
	for _, node := range c.nodes {
		nodes = append(nodes, redis.NewClient(&redis.Options{
			Addr: node.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		}))
	}
	c.clients = append(c.clients, nodes...)
	routes, breakers := &instance.Routes{}, instance.TellBreakers(name, c.recorder)
	c.breakers = append(c.breakers, breakers)
	eng, err := redfence.New(ctx, redfence.Config{Nodes: nodes, Ledger: c.ledger, Owner: name, Observer: observe.Tee(routes, breakers)})
	if err != nil {
		return err
	}
	c.engines = append(c.engines, eng)
	service := &instance.Service{Name: name, Recorder: c.recorder, Routes: routes}
	handler, err := service.Handler(eng)
	if err != nil {
		return err
	}
	c.servers = append(c.servers, httptest.NewServer(handler))
	return nil
}

// Instances implements Cluster.
func (c *Rehearsal) Instances() []string {
	urls := make([]string, len(c.servers))
	for i, server := range c.servers {
		urls[i] = server.URL
	}
	return urls
}

// Nodes implements Cluster.
func (c *Rehearsal) Nodes() int { return len(c.nodes) }

// Do implements Cluster: a node closes its port and connections, and opens
// again.
func (c *Rehearsal) Do(_ context.Context, a history.Action) (string, error) {
	switch node := c.nodes[a.Node]; a.Kind {
	case history.KillNode:
		node.Close()
		return "closed", nil
	case history.RestartNode:
		node.FlushAll()
		return "opened again, empty", node.Restart()
	}
	return "", fmt.Errorf("%s is not possible in one process", a.Kind)
}

// Rows implements Cluster.
func (c *Rehearsal) Rows(ctx context.Context, keys []string) ([]history.Row, error) {
	var rows []history.Row
	for _, key := range keys {
		rec, err := c.engines[0].Inspect(ctx, redfence.Key{ID: key})
		if err != nil {
			return nil, fmt.Errorf("chaos: read the ledger: %w", err)
		}
		if rec.State != fallback.Absent {
			rows = append(rows, history.Row{Key: key, State: rec.State.String(), Fence: rec.Fence})
		}
	}
	return rows, nil
}

// Lockers implements Cluster: a guarded Redlock needs real nodes.
func (c *Rehearsal) Lockers() []string { return []string{history.EngineLock} }

// Transfers implements Cluster: they need Postgres.
func (c *Rehearsal) Transfers() bool { return false }

// Accounts implements Cluster.
func (c *Rehearsal) Accounts(context.Context) (*history.Accounts, error) { return nil, nil }

// Locks implements Cluster.
func (c *Rehearsal) Locks(context.Context) ([]string, error) {
	var names []string
	for i, node := range c.nodes {
		for _, key := range node.Keys() {
			if isLock(key) {
				names = append(names, fmt.Sprintf("node %d: %s", i, key))
			}
		}
	}
	return names, nil
}

// Health implements Cluster: what is in this process lives as long as it.
func (c *Rehearsal) Health() error { return nil }

// Close implements Cluster.
func (c *Rehearsal) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var failed error
	for _, server := range c.servers {
		server.Close()
	}
	for _, eng := range c.engines {
		failed = errors.Join(failed, eng.Close(ctx))
	}
	for _, client := range c.clients {
		failed = errors.Join(failed, client.Close())
	}
	for _, node := range c.nodes {
		node.Close()
	}
	for _, b := range c.breakers {
		b.Close()
	}
	c.recorder.Close()
	return errors.Join(failed, c.ledger.Close())
}
