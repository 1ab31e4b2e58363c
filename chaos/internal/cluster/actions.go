package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/internal/servers"
)

// Do implements Cluster.
func (c *Local) Do(ctx context.Context, a history.Action) (proof string, err error) {
	switch a.On() {
	case "node":
		return c.doNode(ctx, a)
	case "postgres":
		return c.doPostgres(ctx, a)
	}
	if proof, known, err := c.doLinks(ctx, a); known {
		return proof, err
	}
	return c.doInstance(ctx, a)
}

func (c *Local) doNode(ctx context.Context, a history.Action) (proof string, err error) {
	node := c.stores.Redis[a.Node]
	switch a.Kind {
	case history.KillNode:
		return killed(ctx, node.Pid(), node.Kill, node.Addr())
	case history.RestartNode:
		return restarted(ctx, node, node.Restart, "on an empty folder")
	case history.RebootNode:
		return restarted(ctx, node, node.RestartKeepingData, "with its data")
	case history.PauseNode:
		return "stopped", node.Pause()
	case history.ResumeNode:
		return "continued", node.Resume()
	case history.FlushNode:
		return flushed(ctx, node)
	case history.LapseLocks:
		return lapsed(ctx, node)
	case history.StallNode:
		return stalled(ctx, node)
	case history.EvictNode:
		return evicted(ctx, node)
	case history.SlowNode:
		return c.slowNode(a.Node), nil
	case history.QuickenNode:
		return c.quickenNode(a.Node)
	}
	return "", fmt.Errorf("unknown action %q", a.Kind)
}

// killed kills a server and proves that nothing listens there any more.
func killed(ctx context.Context, pid int, kill func() error, addr string) (string, error) {
	if pid == 0 {
		return "", errors.New("it is down already")
	}
	if err := kill(); err != nil {
		return "", err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err == nil {
		return "", errors.Join(errors.New("it accepts connections after SIGKILL"), conn.Close())
	}
	return fmt.Sprintf("process %d waited for; %v", pid, err), nil
}

func restarted(ctx context.Context, node *servers.Redis, restart func() error, how string) (string, error) {
	if err := restart(); err != nil {
		return "", err
	}
	if err := node.Client().Ping(ctx).Err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d started %s and answers PING", node.Pid(), how), nil
}

// stallFor is how long a stalled node does not answer.
const stallFor = time.Second

// stalled has a node answer nobody, and asks it to see that it does not.
func stalled(ctx context.Context, node *servers.Redis) (string, error) {
	if err := node.Client().Do(ctx, "CLIENT", "PAUSE", stallFor.Milliseconds(), "ALL").Err(); err != nil {
		return "", err
	}
	soon, cancel := context.WithTimeout(ctx, stallFor/10)
	defer cancel()
	if err := node.Client().Ping(soon).Err(); err == nil {
		return "", errors.New("it answers while it should pause")
	}
	return fmt.Sprintf("no PONG within %v of a pause of %v", stallFor/10, stallFor), nil
}

// evictLimit bounds how long a node may have too little memory.
const evictLimit = time.Second

// evicted gives a node less memory than it uses, until it has evicted
// something.
func evicted(ctx context.Context, node *servers.Redis) (string, error) {
	before, err := evictedKeys(ctx, node)
	if err != nil {
		return "", err
	}
	client := node.Client()
	restore := func() error {
		return errors.Join(client.ConfigSet(ctx, "maxmemory", "0").Err(), client.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	}
	err = errors.Join(client.ConfigSet(ctx, "maxmemory-policy", "allkeys-random").Err(), client.ConfigSet(ctx, "maxmemory", "1mb").Err())
	after := before
	for end := time.Now().Add(evictLimit); err == nil && after == before && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
		after, err = evictedKeys(ctx, node)
	}
	if err := errors.Join(err, restore()); err != nil {
		return "", err
	}
	if after == before {
		return "", fmt.Errorf("nothing was evicted: %w", history.ErrMissed)
	}
	return fmt.Sprintf("%d keys evicted", after-before), nil
}

func evictedKeys(ctx context.Context, node *servers.Redis) (n int, err error) {
	info, err := node.Client().Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	_, text, _ := strings.Cut(info, "evicted_keys:")
	_, err = fmt.Sscan(text, &n)
	return n, err
}

func flushed(ctx context.Context, node *servers.Redis) (string, error) {
	before, err := node.Client().DBSize(ctx).Result()
	if err != nil {
		return "", err
	}
	if err := node.Client().FlushAll(ctx).Err(); err != nil {
		return "", err
	}
	if before == 0 {
		return "", fmt.Errorf("it was empty: %w", history.ErrMissed)
	}
	return fmt.Sprintf("%d keys gone", before), nil
}

// lapseLimit bounds how long a lock is waited for that is to lapse.
const lapseLimit = time.Second

// lapsed makes every lock of the engine on a node lapse at once, as its clock
// jumping ahead would.
func lapsed(ctx context.Context, node *servers.Redis) (string, error) {
	count := 0
	for end := time.Now().Add(lapseLimit); count == 0 && time.Now().Before(end); {
		names, err := node.Client().Keys(ctx, "rf1:{*}:l").Result()
		if err != nil {
			return "", err
		}
		for _, name := range names {
			there, err := node.Client().PExpire(ctx, name, time.Millisecond).Result()
			if err != nil {
				return "", err
			}
			if there {
				count++
			}
		}
	}
	if count == 0 {
		return "", fmt.Errorf("it had no lock: %w", history.ErrMissed)
	}
	return fmt.Sprintf("%d locks lapsed", count), nil
}

func (c *Local) doInstance(ctx context.Context, a history.Action) (string, error) {
	member := c.member(a.Instance)
	switch a.Kind {
	case history.KillInstance:
		pid := member.Program.Pid()
		return fmt.Sprintf("process %d waited for", pid), member.Kill()
	case history.DrainInstance:
		pid := member.Program.Pid()
		return fmt.Sprintf("process %d drained and waited for", pid), member.Stop()
	case history.StartInstance:
		return c.startInstance(ctx, a.Instance, member.options)
	case history.SplitNodes, history.JoinNodes:
		var nodes []int // all
		if a.Kind == history.SplitNodes {
			nodes = otherNodes(len(c.stores.Redis), a.Instance)
		}
		if err := member.Stop(); err != nil {
			return "", err
		}
		return c.startInstance(ctx, a.Instance, member.options.knowing(nodes))
	case history.StopInstance:
		return "stopped", member.Program.Pause()
	case history.WakeInstance:
		return "continued", member.Program.Resume()
	}
	return "", fmt.Errorf("unknown action %q", a.Kind)
}

func (c *Local) startInstance(ctx context.Context, number int, o MemberOptions) (string, error) {
	m, err := StartMember(ctx, c.stores, o.at(c.member(number).address()))
	if err != nil {
		return "", err
	}
	c.replace(number, m)
	return fmt.Sprintf("process %d serves with %d nodes", m.Program.Pid(), len(m.Redis)), nil
}

// otherNodes are fewer of the nodes, an odd number: the first or the last.
func otherNodes(of, number int) []int {
	count := max(1, of-2)
	nodes := make([]int, count)
	for i := range nodes {
		nodes[i] = i + (number%2)*(of-count)
	}
	return nodes
}
