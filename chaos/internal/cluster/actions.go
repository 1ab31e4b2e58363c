package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/proxy"
	"github.com/redfence/redfence/internal/servers"
)

// How bad a bad link is, and how long a stall lasts.
const (
	slowBy   = 30 * time.Millisecond
	stallFor = time.Second
)

// Do implements Cluster.
func (c *Local) Do(ctx context.Context, a history.Action) (proof string, err error) {
	node, member := c.stores.Redis[a.Node], c.member(a.Instance)
	switch a.Kind {
	case history.KillNode:
		return killed(ctx, node.Pid(), node.Kill, node.Addr())
	case history.RestartNode:
		return c.restartNode(ctx, node)
	case history.PauseNode:
		return "stopped", node.Pause()
	case history.ResumeNode:
		return "continued", node.Resume()
	case history.FlushNode:
		return flushed(ctx, node)
	case history.LapseLocks:
		return lapsed(ctx, node)
	case history.StallNode:
		return "stalled for " + stallFor.String(), node.Client().Do(ctx, "CLIENT", "PAUSE", stallFor.Milliseconds(), "ALL").Err()
	case history.CutRedis, history.HoldReplies, history.SlowRedis, history.HealRedis:
		for _, link := range member.Redis {
			link.Set(linkFaults[a.Kind])
		}
		return "links set", nil
	case history.CutPostgres, history.HealPostgres:
		member.Postgres.Set(linkFaults[a.Kind])
		return "link set", nil
	case history.DropReply:
		member.Postgres.CutReplies(1)
		return "armed", nil
	case history.KillInstance, history.StartInstance, history.StopInstance, history.WakeInstance:
		return c.doInstance(ctx, a)
	default:
		return c.doPostgres(ctx, a)
	}
}

var linkFaults = map[string]proxy.Faults{
	history.CutRedis:     {Refuse: true},
	history.HoldReplies:  {HoldReplies: true},
	history.SlowRedis:    {Delay: slowBy},
	history.HealRedis:    {},
	history.CutPostgres:  {Refuse: true},
	history.HealPostgres: {},
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

func (c *Local) restartNode(ctx context.Context, node *servers.Redis) (string, error) {
	if err := node.Restart(); err != nil {
		return "", err
	}
	if err := node.Client().Ping(ctx).Err(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d started on an empty folder and answers PING", node.Pid()), nil
}

func flushed(ctx context.Context, node *servers.Redis) (string, error) {
	before, err := node.Client().DBSize(ctx).Result()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d keys gone", before), node.Client().FlushAll(ctx).Err()
}

// lapsed makes every lock on a node lapse at once, as its clock jumping ahead
// would.
func lapsed(ctx context.Context, node *servers.Redis) (string, error) {
	names, err := node.Client().Keys(ctx, "rf1:*:l").Result()
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if err := node.Client().PExpire(ctx, name, time.Millisecond).Err(); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d locks lapsed", len(names)), nil
}

func (c *Local) doInstance(ctx context.Context, a history.Action) (string, error) {
	member := c.member(a.Instance)
	switch a.Kind {
	case history.KillInstance:
		pid := member.Program.Pid()
		return fmt.Sprintf("process %d waited for", pid), member.Kill()
	case history.StartInstance:
		m, err := StartMember(ctx, c.stores, member.options.at(member.address()))
		if err != nil {
			return "", err
		}
		c.replace(a.Instance, m)
		return fmt.Sprintf("process %d serves", m.Program.Pid()), nil
	case history.StopInstance:
		return "stopped", member.Program.Pause()
	default:
		return "continued", member.Program.Resume()
	}
}

func (c *Local) doPostgres(ctx context.Context, a history.Action) (string, error) {
	p := c.stores.Postgres
	switch a.Kind {
	case history.KillPostgres:
		return killed(ctx, p.Pid(), p.Kill, p.Addr())
	case history.StartPostgres:
		if err := p.Restart(); err != nil {
			return "", err
		}
		return fmt.Sprintf("process %d answers after recovery", p.Pid()), nil
	case history.StopPostgres:
		return "stopped with its children", p.Pause()
	case history.WakePostgres:
		return "continued", p.Resume()
	}
	return "", fmt.Errorf("unknown action %q", a.Kind)
}
