package node

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// Config says how the nodes of a Set are used.
type Config struct {
	// Timeout is the deadline of one pipeline at one node, connecting
	// included. Defaults to 400 ms.
	Timeout time.Duration
	// Queue bounds the commands that wait at one node. Defaults to 16,384.
	Queue int
	// OpenFor is how long a node that failed is left alone between probes.
	// Defaults to 250 ms.
	OpenFor time.Duration
	// Scripts are loaded on each new connection. One that is missing all the
	// same is sent in full.
	Scripts []*Script
	// Hello runs on each new connection of a node, before any command; an
	// error means that the connection cannot be used. It needs clients that
	// can give a connection away (*redis.Client). Defaults to nothing.
	Hello func(ctx context.Context, n *Node, conn *redis.Conn) error
	// Finish is given the commands that go into one pipeline; what it returns,
	// if anything, goes with them, at the end. It runs on the node's goroutine,
	// may change Args and Script of commands of its own, and must be short.
	// Defaults to nothing.
	Finish func(n *Node, ops []*Op) *Op
	// TrustClients accepts clients whose options cannot be read.
	TrustClients bool
	// Observer receives NodeDown and NodeUp. Defaults to none.
	Observer observe.Observer
}

const (
	// DefaultTimeout is the default of Config.Timeout.
	DefaultTimeout  = 400 * time.Millisecond
	defaultQueue    = 16 << 10
	defaultOpenFor  = 250 * time.Millisecond
	failuresToOpen  = 2
	maxBatch        = 1024
	maxDeferred     = 16 << 10
	deferredAtOnce  = 512
	minTimeout      = time.Millisecond
	failoverAddress = "FailoverClient"
)

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Queue == 0 {
		c.Queue = defaultQueue
	}
	if c.OpenFor == 0 {
		c.OpenFor = defaultOpenFor
	}
	c.Observer = observe.Or(c.Observer)
	return c
}

func (c Config) check(list *problems.List) {
	if c.Timeout < minTimeout {
		list.Add("NodeTimeout: %v is below %v", c.Timeout, minTimeout)
	}
	if c.Queue < 0 {
		list.Add("Queue: %d is negative", c.Queue)
	}
	if c.OpenFor < 0 {
		list.Add("OpenFor: %v is negative", c.OpenFor)
	}
}

// A Set is the nodes of one deployment, in the order of the clients. It is
// safe for concurrent use.
type Set struct{ nodes []*Node }

// NewSet checks the clients and starts one goroutine per node. It connects to
// nothing. Its error lists every problem: no client, a nil client, an address
// that occurs twice, options that safety depends on, bad settings.
func NewSet(clients []redis.UniversalClient, cfg Config) (*Set, error) {
	cfg = cfg.withDefaults()
	var list problems.List
	cfg.check(&list)
	list.AddErr(CheckClients(clients, cfg.TrustClients))
	if cfg.Hello != nil {
		checkConnections(clients, &list)
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	set := &Set{nodes: make([]*Node, len(clients))}
	for i, client := range clients {
		quiet(client)
		set.nodes[i] = newNode(i, client, cfg)
	}
	return set, nil
}

// Nodes returns the nodes. The slice must not be changed.
func (s *Set) Nodes() []*Node { return s.nodes }

// Quorum returns the size of a majority.
func (s *Set) Quorum() int { return len(s.nodes)/2 + 1 }

// Close ends the goroutines, refuses what is queued with ErrClosed and waits
// for what is in flight. The clients stay the caller's.
func (s *Set) Close() {
	for _, n := range s.nodes {
		n.close()
	}
	for _, n := range s.nodes {
		<-n.done
	}
}
