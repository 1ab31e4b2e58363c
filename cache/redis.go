package cache

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

//go:embed scripts/put.lua
var putSource string

var putScript = node.NewScript("cache put", putSource)

// A Cache keeps the records of completed keys on every node of a set. It is
// safe for concurrent use.
type Cache struct {
	cfg   Config
	nodes []*node.Node
	own   *node.Set // closed by Close; nil: the caller's
}

// New returns a cache on nodes of its own. It connects to nothing; Close ends
// its goroutines, the clients stay the caller's.
func New(clients []redis.UniversalClient, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	var list problems.List
	cfg.check(&list)
	set, err := node.NewSet(clients, node.Config{
		Timeout: cfg.NodeTimeout, Scripts: []*node.Script{putScript},
		TrustClients: cfg.TrustClients, Observer: cfg.Observer,
	})
	list.AddErr(err)
	if err := list.Err(); err != nil {
		if set != nil {
			set.Close()
		}
		return nil, err
	}
	return &Cache{cfg: cfg, nodes: set.Nodes(), own: set}, nil
}

// NewOn returns a cache on a set of nodes that others use as well. The set
// stays the caller's.
func NewOn(set *node.Set, cfg Config) (*Cache, error) {
	cfg = cfg.withDefaults()
	var list problems.List
	cfg.check(&list)
	if err := list.Err(); err != nil {
		return nil, err
	}
	return &Cache{cfg: cfg, nodes: set.Nodes()}, nil
}

// Close ends what New has started. Puts in flight may be lost.
func (c *Cache) Close() {
	if c.own != nil {
		c.own.Close()
	}
}

// Result says what a look-up has found.
type Result string

const (
	// Hit: the record answers the request.
	Hit Result = "hit"
	// Absent: no node that was asked holds a record.
	Absent Result = "absent"
	// Expired: the record's retention is over, or so close to its end that
	// only the ledger can say.
	Expired Result = "expired"
	// NoClock: there is no estimate of the ledger's clock to judge by.
	NoClock Result = "no_clock"
	// Unverified: the record is forged, broken or of another deployment.
	Unverified Result = "unverified"
	// Erased: the key was forgotten; the ledger knows more.
	Erased Result = "forgotten"
	// Failed: no node answered.
	Failed Result = "error"
)

// A Clock estimates the ledger's clock: its time now, and how wrong that may
// be. ok is false when there is no estimate.
type Clock func() (now time.Time, margin time.Duration, ok bool)

// Get looks a key up at one healthy node, chosen by the digest, and at one more
// if that one has nothing to offer. Anything but Hit is a miss. The record is
// the caller's to read; its slices must not be changed.
//
// The fingerprint is not compared, and the caller has authorised the request
// before it asks.
func (c *Cache) Get(ctx context.Context, digest [32]byte, clock Clock) (Record, Result) {
	now, margin, ok := clock()
	if !ok {
		return Record{}, NoClock
	}
	worst := Failed
	for _, n := range c.candidates(digest) {
		record, result := c.ask(ctx, n, digest)
		if result == Hit && expired(&record, now, margin) {
			result = Expired
		}
		if result == Hit && record.Kind == Forgotten {
			result = Erased
		}
		if result == Hit || result == Erased {
			return record, result
		}
		worst = tell(worst, result)
	}
	return Record{}, worst
}

// tell picks the miss that says more about two nodes.
func tell(a, b Result) Result {
	for _, r := range []Result{Unverified, Expired, Absent} {
		if a == r || b == r {
			return r
		}
	}
	return Failed
}

// expired is true as soon as the record may be expired.
func expired(r *Record, now time.Time, margin time.Duration) bool {
	return !r.ExpiresAt.IsZero() && !now.Add(margin).Before(r.ExpiresAt)
}

// candidates are the nodes to ask, at most two, healthy ones only.
func (c *Cache) candidates(digest [32]byte) []*node.Node {
	first := int(binary.BigEndian.Uint32(digest[:]) % uint32(len(c.nodes)))
	asked := make([]*node.Node, 0, 2)
	for i := range c.nodes {
		n := c.nodes[(first+i)%len(c.nodes)]
		if n.Down() != nil {
			continue
		}
		if asked = append(asked, n); len(asked) == cap(asked) {
			break
		}
	}
	return asked
}

func (c *Cache) ask(ctx context.Context, n *node.Node, digest [32]byte) (Record, Result) {
	value, err := n.Do(ctx, "get", keyOf(digest))
	if err != nil {
		return Record{}, Failed
	}
	text, ok := value.(string)
	if !ok {
		return Record{}, Absent
	}
	record, err := decode([]byte(text), digest, c.cfg.Keys)
	if err != nil {
		c.cfg.Observer.Observe(observe.CacheUnverified{Key: observe.RefOf(digest[:]), Node: n.Addr()})
		return Record{}, Unverified
	}
	return record, Hit
}

// keyOf is the record's key in Redis: rf1:{<digest>}:c. The version of the
// layout is part of the name; the braces keep a key's keys on one shard.
func keyOf(digest [32]byte) string {
	b := make([]byte, 0, 5+2*len(digest)+3)
	b = append(b, "rf1:{"...)
	b = hex.AppendEncode(b, digest[:])
	return string(append(b, "}:c"...))
}

// Put stores a record on every node, in the background: it queues one command
// per node and returns. now is the ledger's clock as the caller knows it.
// Records that are expired by it are not stored.
func (c *Cache) Put(r Record, now time.Time) {
	ttl := c.ttl(r.ExpiresAt, now)
	if ttl < time.Millisecond {
		return
	}
	ref := observe.RefOf(r.Digest[:])
	encoded, err := r.encode(c.cfg.Keys)
	if err != nil {
		c.cfg.Observer.Observe(observe.CachePut{Key: ref, Result: "failed", Err: err})
		return
	}
	args := putScript.Command([]string{keyOf(r.Digest)}, encoded, ttl.Milliseconds())
	for _, n := range c.nodes {
		n.Send(&node.Op{Args: args, Script: putScript, To: &put{c: c, n: n, ref: ref}})
	}
}

// ttl is how long Redis is to keep a record.
func (c *Cache) ttl(expiresAt, now time.Time) time.Duration {
	if expiresAt.IsZero() {
		return c.cfg.TTL
	}
	return min(c.cfg.TTL, expiresAt.Sub(now))
}

// A put is one node's share of a Put.
type put struct {
	c   *Cache
	n   *node.Node
	ref observe.Ref
}

// Reply implements node.Receiver. Stored puts are not told: they are the rule.
func (p *put) Reply(_ *node.Op, value any, err error) {
	result := "superseded"
	switch {
	case errors.Is(err, node.ErrOverloaded):
		result = "dropped"
	case err != nil:
		result = "failed"
	case value == int64(1):
		return
	}
	p.c.cfg.Observer.Observe(observe.CachePut{Key: p.ref, Node: p.n.Addr(), Result: result, Err: err})
}
