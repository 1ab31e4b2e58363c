package cache

import (
	"context"
	"unsafe"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

// Get looks a key up at one healthy node, the first from the record's home, and
// at one more if that one does not answer, or not with a record that verifies.
// Anything but Hit is a miss. The record is the caller's to read; its slices
// must not be changed.
//
// A node that has lost its memory makes a miss for each key that it was to
// keep, and the put that follows ends that; Recall finds the other copies.
//
// The fingerprint is not compared, and the caller has authorised the request
// before it asks.
func (c *Cache) Get(ctx context.Context, digest [32]byte, clock Clock) (Record, Result) {
	return c.lookup(digest, clock).End(ctx)
}

// A Lookup is a Get that waits for nothing until its End. It is one caller's.
type Lookup struct {
	c      *Cache
	digest [32]byte
	clock  Clock
	near   Record // if found
	found  bool
	node   *node.Node // that has been asked; nil: none
	sent   *node.Pending
}

func (c *Cache) lookup(digest [32]byte, clock Clock) Lookup {
	l := Lookup{c: c, digest: digest, clock: clock}
	l.near, l.found = c.near.get(digest)
	return l
}

// Begin begins a Get. What is asked of a node goes together with what the caller
// sends to that node next, or when it waits.
func (c *Cache) Begin(digest [32]byte, clock Clock) Lookup {
	l := c.lookup(digest, clock)
	if l.found {
		return l
	}
	key := keyOf(digest)
	for _, n := range c.upFrom(key) {
		l.node, l.sent = n, n.Begin(getCommand(key)...)
		break
	}
	return l
}

// End waits for the answer of Get.
func (l Lookup) End(ctx context.Context) (Record, Result) {
	now, margin, ok := l.clock()
	if !ok {
		return Record{}, NoClock
	}
	if l.found {
		if result := judge(&l.near, now, margin); result != Expired {
			return l.near, result
		}
	}
	return l.look(ctx, 2, Absent, func(r *Record) Result { return judge(r, now, margin) })
}

// Recall asks node after node: for a key that only the cache can answer.
func (c *Cache) Recall(ctx context.Context, digest [32]byte, clock Clock) (Record, Result) {
	now, margin, ok := clock()
	if !ok {
		return Record{}, NoClock
	}
	l := Lookup{c: c, digest: digest}
	return l.look(ctx, len(c.nodes), Hit, func(r *Record) Result { return judge(r, now, margin) })
}

// look asks at most so many healthy nodes, until one has the record or gives an
// answer that is good enough.
func (l *Lookup) look(ctx context.Context, most int, enough Result, judge func(*Record) Result) (Record, Result) {
	worst, key := Failed, keyOf(l.digest)
	for _, n := range l.c.upFrom(key) {
		if most--; most < 0 {
			break
		}
		record, result := l.ask(ctx, n, key)
		if result == Hit {
			result = judge(&record)
		}
		if result == Hit || result == Erased {
			l.c.near.put(record)
			return record, result
		}
		if worst = tell(worst, result); result == enough {
			break
		}
	}
	return Record{}, worst
}

func (l *Lookup) ask(ctx context.Context, n *node.Node, key string) (Record, Result) {
	text, err := l.read(ctx, n, key)
	if err != nil {
		return Record{}, Failed
	}
	if text == "" {
		return Record{}, Absent
	}
	record, err := decode(bytesOf(text), l.digest, l.c.cfg.Keys)
	if err != nil {
		l.c.cfg.Observer.Observe(observe.CacheUnverified{Key: observe.RefOf(l.digest[:]), Node: n.Addr()})
		return Record{}, Unverified
	}
	return record, Hit
}

// bytesOf returns the bytes of a text without copying them. They must not be
// changed, as those of a Record must not.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// getCommand asks for as much of a record as goes through the shared pipeline:
// all of it, mostly.
func getCommand(key string) []any { return []any{"getrange", key, 0, large} }

// read gets a record. A large one is read by itself on a connection of the
// client's pool.
func (l *Lookup) read(ctx context.Context, n *node.Node, key string) (string, error) {
	var value any
	var err error
	if n == l.node {
		value, err = l.sent.Wait(ctx)
	} else {
		value, err = n.Do(ctx, getCommand(key)...)
	}
	if err != nil {
		return "", err
	}
	text, _ := value.(string)
	if len(text) <= large {
		return text, nil
	}
	ctx, cancel := context.WithTimeout(ctx, largeTimeout(n, maxRecord))
	defer cancel()
	text, err = n.Client().Get(ctx, key).Result()
	if err == redis.Nil { // it went away in between
		return "", nil
	}
	return text, err
}

// maxRecord is about the largest record that is cached, for time-outs only.
const maxRecord = 1 << 20
