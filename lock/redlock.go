package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// A Redlock is a Locker over independent Redis nodes. It is safe for
// concurrent use.
type Redlock struct {
	cfg      Config
	set      *node.Set
	nodes    []*node.Node
	ownsSet  bool
	redsync  *redsync.Redsync
	usual    []redsync.Option // for the default TTL
	guard    *guard           // nil: unguarded
	observed bool             // somebody listens to LockAcquired and LockLost
	brief    bool             // a refusal need not say who holds the lock
	canary   string
	canaries atomic.Uint64

	subscriber *subscriber
	queues     *queues
	timers     timers
}

var _ Locker = (*Redlock)(nil)

// New returns a Redlock over the clients, which stay the caller's. It succeeds
// with every node down; nodes that answer are asked, for at most NodeTimeout,
// whether they agree about MaxTTL. Its error lists every problem at once.
//
// A guarded deployment begins with Init; without it the nodes do not vote
// before MaxTTL has passed.
func New(ctx context.Context, clients []redis.UniversalClient, cfg Config) (*Redlock, error) {
	observed := cfg.Observer != nil
	cfg = cfg.withDefaults()
	var list problems.List
	cfg.check(&list)
	checkOdd(&list, len(clients))
	nodeConfig := node.Config{
		Timeout:      cfg.NodeTimeout,
		Scripts:      Scripts(),
		TrustClients: cfg.TrustClients,
		Observer:     cfg.Observer,
	}
	var g *guard
	if !cfg.Unguarded {
		g = newGuard(cfg.MaxTTL, len(clients), cfg.Observer)
		nodeConfig.Scripts, nodeConfig.Hello, nodeConfig.Finish = guardedScripts(), g.hello, g.tally
	}
	set, err := node.NewSet(clients, nodeConfig)
	list.AddErr(err)
	if err := list.Err(); err != nil {
		if set != nil {
			set.Close()
		}
		return nil, fmt.Errorf("lock: %w", err)
	}
	r := newRedlock(set, cfg)
	r.ownsSet, r.observed = true, observed
	if observed {
		r.warn(ctx, clients)
	}
	if g != nil {
		g.nodes, r.guard = set.Nodes(), g
		if err := g.agree(ctx); err != nil {
			set.Close()
			return nil, fmt.Errorf("lock: %w", err)
		}
	}
	return r, nil
}

// NewOn returns an unguarded Redlock over a set of nodes that it shares with
// others. Close does not close the set. Its refusals do not say who holds the
// lock, which saves a round trip. It is for the packages of this module: the
// set's type is internal.
func NewOn(set *node.Set, cfg Config) (*Redlock, error) {
	cfg = cfg.withDefaults()
	var list problems.List
	cfg.check(&list)
	checkOdd(&list, len(set.Nodes()))
	if !cfg.Unguarded {
		list.Add("Unguarded: not set; the restart guard needs connections of its own: use New")
	}
	if err := list.Err(); err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	r := newRedlock(set, cfg)
	r.brief = true
	return r, nil
}

// warn tells the observer what Check finds, within the node deadline.
func (r *Redlock) warn(ctx context.Context, clients []redis.UniversalClient) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.NodeTimeout)
	defer cancel()
	for _, f := range Check(ctx, clients) {
		r.cfg.Observer.Observe(observe.NodeWarning{Node: f.Node, Problem: f.Problem, Fix: f.Fix})
	}
}

func checkOdd(list *problems.List, n int) {
	if n > 0 && n%2 == 0 {
		list.Add("%d nodes: an even number tolerates no more failures than one less; use an odd number", n)
	}
}

func newRedlock(set *node.Set, cfg Config) *Redlock {
	return &Redlock{
		cfg:     cfg,
		set:     set,
		nodes:   set.Nodes(),
		redsync: redsyncOver(len(set.Nodes())),
		usual:   mutexOptions(cfg.TTL, cfg.NodeTimeout),
		canary:  "canary:" + newToken(),

		subscriber: newSubscriber(set.Nodes(), cfg.Prefix+"p:"+newToken()),
		queues:     newQueues(),
	}
}

// Close stops the locker, within a few times NodeTimeout. Leases that are still
// held are not released; they are no longer renewed, and lapse. A locker that
// shares its nodes (NewOn) leaves them running, renewals too.
func (r *Redlock) Close() error {
	r.subscriber.close(r.cfg.NodeTimeout)
	if r.ownsSet {
		r.set.Close()
	}
	return nil
}

// key is the name of a lock in Redis.
func (r *Redlock) key(name string) string { return r.cfg.Prefix + "{" + name + "}:l" }

// askedKey is the name of the set that says who is to be told of a lock's
// release, given the lock's key.
func askedKey(key string) string { return key[:len(key)-1] + "r" }

// releaseCommand gives a token's lock back. The braces of a name that begins with
// } keep nothing together: on a Cluster its keys are on different shards, and a
// command of both would be refused, so nobody is told.
func releaseCommand(key, token string) []any {
	keys := []string{key, askedKey(key)}
	if tag := strings.IndexByte(key, '{') + 1; key[tag] == '}' {
		keys = keys[:1]
	}
	return releaseScript.Command(keys, token)
}

// options resolves and checks what one acquire asks for.
func (r *Redlock) options(name string, opts []Option) (Options, error) {
	o := Resolve(Options{TTL: r.cfg.TTL, MaxHold: r.cfg.MaxHold}, opts...)
	var list problems.List
	checkAcquire(&list, name, o)
	if !r.cfg.Unguarded && o.TTL > r.cfg.MaxTTL {
		list.Add("TTL: %v is above the deployment's MaxTTL %v", o.TTL, r.cfg.MaxTTL)
	}
	if err := list.Err(); err != nil {
		return o, fmt.Errorf("lock: acquire %s: %w: %w", quoted(name), ErrNotAcquired, err)
	}
	return o, nil
}

// TryAcquire makes one try. Its error is an *Error.
func (r *Redlock) TryAcquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	o, err := r.options(name, opts)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	h, err := r.try(ctx, name, o)
	if err != nil {
		r.refused(name, err, start)
		return nil, err
	}
	r.acquired(h, start)
	return h, nil
}

// refused tells the observer, if there is one.
func (r *Redlock) refused(name string, err error, start time.Time) {
	if r.observed {
		r.cfg.Observer.Observe(observe.LockRefused{Lock: refOf(name), Reason: reasonOf(err), Took: time.Since(start)})
	}
}

// reasonOf is the reason of a failed acquire in a word.
func reasonOf(err error) string {
	for _, r := range []struct {
		err  error
		word string
	}{
		{context.Canceled, "canceled"}, {context.DeadlineExceeded, "canceled"}, {ErrTaken, "taken"}, {ErrTooLate, "too_late"},
		{ErrOverloaded, "overloaded"}, {ErrClosed, "closed"}, {ErrNoQuorum, "no_quorum"},
	} {
		if errors.Is(err, r.err) {
			return r.word
		}
	}
	return "other"
}

// acquired tells the observer, if there is one.
func (r *Redlock) acquired(h *held, start time.Time) {
	if r.observed {
		r.cfg.Observer.Observe(observe.LockAcquired{Lock: refOf(h.name), Fence: h.fence, Took: time.Since(start)})
	}
}

// Do acquires name, runs fn with the lease's context and releases. It returns
// what fn returns, joined with ErrLost when the lease was lost meanwhile.
func (r *Redlock) Do(ctx context.Context, name string, fn func(ctx context.Context) error, opts ...Option) error {
	return Do(ctx, r, name, fn, opts...)
}

// Probe takes and gives back a lock that nobody else uses: it succeeds when a
// quorum answers and can be written to.
func (r *Redlock) Probe(ctx context.Context) error {
	name := fmt.Sprintf("%s:%d", r.canary, r.canaries.Add(1))
	h, err := r.try(ctx, name, Options{TTL: max(time.Second, 4*r.cfg.NodeTimeout)})
	if err != nil {
		return err
	}
	h.releaseLater()
	return nil
}

func isClosed(err error) bool     { return errors.Is(err, ErrClosed) }
func isOverloaded(err error) bool { return errors.Is(err, ErrOverloaded) }

// drift is what is taken off a TTL for clocks that run apart.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
