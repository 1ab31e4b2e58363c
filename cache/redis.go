package cache

import (
	"encoding/hex"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
)

// A Cache keeps the records of completed keys on the nodes of a set, each on a
// majority of them. It is safe for concurrent use.
type Cache struct {
	cfg    Config
	nodes  []*node.Node
	bounds []bound // one per node
	near   *near
	large  senders
	own    *node.Set // closed by Close; nil: the caller's
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
	c := newOn(set, cfg)
	c.own = set
	return c, nil
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
	return newOn(set, cfg), nil
}

func newOn(set *node.Set, cfg Config) *Cache {
	c := &Cache{
		cfg: cfg, nodes: set.Nodes(), bounds: make([]bound, len(set.Nodes())), near: newNear(cfg.NearBytes),
		large: senders{slots: make(chan struct{}, largeAtOnce)},
	}
	for i, n := range c.nodes {
		c.bounds[i].node, c.bounds[i].max = n, cfg.MaxBytes
	}
	return c
}

// Close waits for large puts in flight and ends what New has started. Other
// puts may be lost.
func (c *Cache) Close() {
	c.large.running.Wait()
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

// Near looks a key up in this process only.
func (c *Cache) Near(digest [32]byte, clock Clock) (Record, bool) {
	record, found := c.near.get(digest)
	if !found {
		return Record{}, false
	}
	now, margin, ok := clock()
	return record, ok && judge(&record, now, margin) == Hit
}

// upFrom yields the nodes that are up, with their places, from the record's
// home on.
func (c *Cache) upFrom(key string) iter.Seq2[int, *node.Node] {
	return func(yield func(int, *node.Node) bool) {
		first := home(key, len(c.nodes))
		for i := range c.nodes {
			at := (first + i) % len(c.nodes)
			if n := c.nodes[at]; n.Down() == nil && !yield(at, n) {
				return
			}
		}
	}
}

// home is where the look-up of a record among n nodes begins: where the key's
// processing lock begins as well, so that a put goes before the release, in the
// same pipeline.
func home(key string, n int) int { return node.Home(key[len(keyBegin):len(key)-len(keyEnd)], n) }

// judge says what a record that verifies is good for.
func judge(r *Record, now time.Time, margin time.Duration) Result {
	switch {
	case expired(r, now, margin):
		return Expired
	case r.Kind == Forgotten:
		return Erased
	}
	return Hit
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

// keyOf is the record's key in Redis: rf1:{<digest>}:c. The version of the
// layout is part of the name; the braces keep a key's keys on one shard.
func keyOf(digest [32]byte) string {
	b := make([]byte, 0, len(keyBegin)+2*len(digest)+len(keyEnd))
	b = append(b, keyBegin...)
	b = hex.AppendEncode(b, digest[:])
	return string(append(b, keyEnd...))
}

const (
	keyBegin = "rf1:{"
	keyEnd   = "}:c"
)
