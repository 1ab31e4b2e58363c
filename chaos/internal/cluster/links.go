package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/proxy"
)

// How slow a slow link is, and how long a reply is waited for that is to be
// lost.
const (
	slowBy    = 30 * time.Millisecond
	dropLimit = 2 * time.Second
)

var linkFaults = map[string]proxy.Faults{
	history.CutRedis:            {Refuse: true},
	history.HoldReplies:         {HoldReplies: true},
	history.HoldRequests:        {HoldRequests: true},
	history.SlowRedis:           {Delay: slowBy},
	history.HealRedis:           {},
	history.CutPostgres:         {Refuse: true},
	history.HoldPostgresReplies: {HoldReplies: true},
	history.HealPostgres:        {},
}

// doLinks does what is done to an instance's links.
func (c *Local) doLinks(ctx context.Context, a history.Action) (proof string, known bool, err error) {
	m := c.member(a.Instance)
	switch a.Kind {
	case history.CutRedis, history.HoldReplies, history.HoldRequests, history.SlowRedis:
		set(m.Redis, linkFaults[a.Kind])
		return "links set", true, nil
	case history.CutPostgres, history.HoldPostgresReplies:
		set([]*proxy.Link{m.Postgres}, linkFaults[a.Kind])
		return "link set", true, nil
	case history.HealRedis:
		proof, err = heal(m.Redis)
	case history.HealPostgres:
		proof, err = heal([]*proxy.Link{m.Postgres})
	case history.DropReply:
		proof, err = drop(ctx, []*proxy.Link{m.Postgres})
	case history.DropRedisReply:
		proof, err = drop(ctx, m.Redis)
	default:
		return "", false, nil
	}
	return proof, true, err
}

func set(links []*proxy.Link, f proxy.Faults) {
	for _, link := range links {
		link.Set(f)
	}
}

// heal mends links and says what the fault has hit: the proof that it was one.
func heal(links []*proxy.Link) (string, error) {
	var total proxy.Seen
	for _, link := range links {
		seen := link.Seen()
		total.Refused += seen.Refused
		total.Held += seen.Held
		total.Delayed += seen.Delayed
	}
	set(links, proxy.Faults{})
	if total == (proxy.Seen{}) {
		return "", fmt.Errorf("healed; %w", history.ErrMissed)
	}
	return fmt.Sprintf("healed; meanwhile %d connections refused, %d packets held, %d delayed", total.Refused, total.Held, total.Delayed), nil
}

// drop loses the next reply of each link, and waits until one was lost.
func drop(ctx context.Context, links []*proxy.Link) (string, error) {
	before := 0
	for _, link := range links {
		before += link.Seen().Cut
		link.CutReplies(1)
	}
	lost := 0
	for end := time.Now().Add(dropLimit); lost == 0 && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(2 * time.Millisecond)
		lost = -before
		for _, link := range links {
			lost += link.Seen().Cut
		}
	}
	for _, link := range links {
		link.CutReplies(0)
	}
	if lost == 0 {
		return "", fmt.Errorf("no reply came in %v: %w", dropLimit, history.ErrMissed)
	}
	return fmt.Sprintf("%d replies lost after their commands took effect", lost), nil
}

// nodeLinks are the links of every instance to a node.
func (c *Local) nodeLinks(node int) []*proxy.Link {
	c.mu.Lock()
	defer c.mu.Unlock()
	var links []*proxy.Link
	for _, m := range c.members {
		if link := m.link(node); link != nil {
			links = append(links, link)
		}
	}
	return links
}

func (c *Local) slowNode(node int) string {
	set(c.nodeLinks(node), linkFaults[history.SlowRedis])
	return "links set"
}

func (c *Local) quickenNode(node int) (string, error) { return heal(c.nodeLinks(node)) }
