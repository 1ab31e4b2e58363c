package cache

import (
	"context"
	_ "embed"
	"errors"
	"sync"
	"time"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

//go:embed scripts/put.lua
var putSource string

var putScript = node.NewScript("cache put", putSource)

const (
	// large records do not go through the pipeline that a process shares: they
	// would hold up its locks.
	large = 16 << 10
	// largeAtOnce bounds the large puts in flight per cache.
	largeAtOnce = 32
)

var errBusy = errors.New("too many large records are on their way")

// Put stores a record on a majority of the nodes, in the background: it queues
// one command per node and returns. They are the first healthy ones from the
// record's home, where look-ups begin: whatever minority is down later, a node
// that is up has it. now is the ledger's clock as the caller knows it. Records
// that are expired by it are not stored.
func (c *Cache) Put(r Record, now time.Time) {
	ttl := c.cfg.TTL
	if !r.ExpiresAt.IsZero() {
		ttl = min(ttl, r.ExpiresAt.Sub(now))
	}
	if ttl < time.Millisecond {
		return
	}
	ref := observe.RefOf(r.Digest[:])
	encoded, err := r.encode(c.cfg.Keys)
	if err != nil {
		c.cfg.Observer.Observe(observe.CachePut{Key: ref, Result: "failed", Err: err})
		return
	}
	c.near.put(r)
	key := keyOf(r.Digest)
	args := []any{"set", key, encoded, "px", ttl.Milliseconds(), "nx"}
	copies := len(c.nodes)/2 + 1
	for at, n := range c.upFrom(key) {
		p := &put{c: c, n: n, ref: ref}
		switch {
		case !c.bounds[at].room():
			c.cfg.Observer.Observe(observe.CachePut{Key: ref, Node: n.Addr(), Result: "full"})
			continue
		case len(encoded) > large:
			c.large.put(p, key, encoded, ttl)
		default:
			p.op = node.Op{Args: args, To: p}
			n.Send(&p.op)
		}
		if copies--; copies == 0 {
			return
		}
	}
}

// A put is one node's share of a Put. A plain SET is enough where the node has
// no record yet, which is the rule; else the script compares the fences.
type put struct {
	c   *Cache
	n   *node.Node
	ref observe.Ref
	op  node.Op
}

// Reply implements node.Receiver. Stored puts are not told: they are the rule.
func (p *put) Reply(op *node.Op, value any, err error) {
	result := "superseded"
	switch {
	case errors.Is(err, node.ErrOverloaded), errors.Is(err, errBusy):
		result = "dropped"
	case err != nil:
		result = "failed"
	case value == "OK", value == int64(1):
		return
	case value == nil:
		set := op.Args
		op.Script, op.Args = putScript, putScript.Command([]string{set[1].(string)}, set[2], set[4])
		p.n.Send(op)
		return
	}
	p.c.cfg.Observer.Observe(observe.CachePut{Key: p.ref, Node: p.n.Addr(), Result: result, Err: err})
}

// senders send large records on connections of the client's pool.
type senders struct {
	slots   chan struct{}
	running sync.WaitGroup
}

func (s *senders) put(p *put, key string, record []byte, ttl time.Duration) {
	select {
	case s.slots <- struct{}{}:
	default:
		p.Reply(nil, nil, errBusy)
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		if down := p.n.Down(); down != nil {
			p.Reply(nil, nil, down)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), largeTimeout(p.n, len(record)))
		defer cancel()
		value, err := p.n.Client().Eval(ctx, putScript.Source(), []string{key}, record, ttl.Milliseconds()).Result()
		p.Reply(nil, value, err)
	})
}

// largeTimeout gives a large record more time than a lock: a second for each
// 4 MiB on top.
func largeTimeout(n *node.Node, size int) time.Duration {
	return n.Timeout() + time.Duration(size)*time.Second/(4<<20)
}
