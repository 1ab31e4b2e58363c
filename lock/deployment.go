package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
)

// agree connects to every node and reports those that were begun with another
// MaxTTL, and servers that are listed twice. Nodes that do not answer are asked
// when they come back.
func (g *guard) agree(ctx context.Context) error {
	errs := make([]error, len(g.nodes))
	var all sync.WaitGroup
	for i, n := range g.nodes {
		all.Go(func() { _, errs[i] = n.Do(ctx, "PING") })
	}
	all.Wait()
	var list problems.List
	for i, err := range errs {
		var setup *setupError
		if errors.As(err, &setup) {
			list.AddErr(NodeError{Node: g.nodes[i].Addr(), Index: i, Err: setup})
		}
	}
	return list.Err()
}

// Init begins a guarded deployment: the nodes vote at once, instead of after
// MaxTTL. Only MaxTTL, NodeTimeout and TrustClients of cfg matter; it defaults
// to Config{}. Init refuses when a node does not answer, or has been begun
// before, because such a node may have forgotten locks that are still held.
func Init(ctx context.Context, clients []redis.UniversalClient, cfg ...Config) error {
	c := Config{}
	if len(cfg) > 0 {
		c = cfg[0]
	}
	c = c.withDefaults()
	var list problems.List
	c.check(&list)
	checkOdd(&list, len(clients))
	list.AddErr(node.CheckClients(clients, c.TrustClients))
	if list.Err() == nil {
		for i, client := range clients {
			if err := virgin(ctx, client); err != nil {
				list.Add("node %d: %w", i, err)
			}
		}
	}
	if list.Err() == nil {
		for i, client := range clients {
			if err := begin(ctx, client, newGuard(c.MaxTTL, 0, nil)); err != nil {
				list.Add("node %d: %w", i, err)
			}
		}
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("lock: init: %w", err)
	}
	return nil
}

var errBegun = errors.New("begun before; it needs no Init")

func virgin(ctx context.Context, client redis.UniversalClient) error {
	marker, err := client.Get(ctx, markerKey).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %s", errBegun, whenItVotes(ctx, client, marker))
}

// whenItVotes says when a node with a marker (standing.lua) votes.
func whenItVotes(ctx context.Context, client redis.UniversalClient, marker string) string {
	var state, run string
	var maxTTL, since int64
	if n, _ := fmt.Sscanf(marker, "%s %s %d %d", &state, &run, &maxTTL, &since); n < 4 || state != "wait" {
		return "it votes, after a restart once MaxTTL has passed"
	}
	now, err := client.Time(ctx).Result()
	left := time.UnixMilli(since + maxTTL).Sub(now).Round(time.Millisecond)
	if err != nil || left <= 0 {
		return "it votes as soon as it has caught up with the others"
	}
	return fmt.Sprintf("it is under guard and votes again in %v", left)
}

// begin writes the marker over the connection on which it reads the run id.
func begin(ctx context.Context, client redis.UniversalClient, g *guard) error {
	single, ok := client.(*redis.Client)
	if !ok {
		return fmt.Errorf("a %T cannot be watched for restarts; the guard needs one *redis.Client per node", client)
	}
	conn := single.EphemeralConn()
	defer conn.Close()
	run, err := runID(ctx, conn)
	if err != nil {
		return err
	}
	answer, err := conn.Eval(ctx, beginSource, []string{markerKey}, g.markerOf(run, newNonce())).Result()
	if err == nil && answer != replyDone {
		err = errBegun
	}
	return err
}
