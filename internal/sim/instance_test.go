package sim

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
)

// An instance is one life of one engine, as of a process.
type instance struct {
	*redfence.Engine
	w       *world
	slot    int // engines of one slot follow one another
	life    int
	name    string
	clients []redis.UniversalClient
	dead    atomic.Bool
	ctx     context.Context // of its callers; ends when it dies
	end     context.CancelFunc

	mu   sync.Mutex
	sent map[string]int
}

// newInstance starts an engine. Nothing has to answer for that.
func (w *world) newInstance(slot, life int) *instance {
	in := &instance{w: w, slot: slot, life: life, name: fmt.Sprintf("engine %d.%d", slot, life), sent: map[string]int{}}
	in.ctx, in.end = context.WithCancel(context.Background())
	for i := range w.nodes {
		in.clients = append(in.clients, redis.NewClient(&redis.Options{
			Addr: fmt.Sprintf("10.0.0.%d:6379", i), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
			Protocol: 2, DisableIdentity: true, DialTimeout: dialTimeout, ReadTimeout: lease, WriteTimeout: lease,
			Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) { return in.dial(ctx, i) },
		}))
	}
	engine, err := redfence.New(in.ctx, redfence.Config{
		Nodes: in.clients, Ledger: &link{in: in, to: w.ledger}, Owner: in.name,
		LedgerTimeout: ledgerTimeout, NodeTimeout: nodeTimeout, MaxResponse: maxResponse,
	})
	if err != nil {
		panic(err)
	}
	in.Engine = engine
	return in
}

const (
	maxResponse = 4 << 10
	dialTimeout = time.Second
)

// stand is where an engine that is stopped stands still: before it sends, and
// before it takes an answer. Its timers cannot be stopped here; they find that
// nothing comes back.
func (in *instance) stand() {
	if left := in.isFrozen(); left > 0 {
		time.Sleep(left)
	}
}

// isFrozen returns for how long the engine still stands.
func (in *instance) isFrozen() (left time.Duration) {
	now := in.w.h.now()
	for _, e := range in.w.plan.episodes {
		if e.kind == frozen && e.target == in.slot && e.from <= now {
			left = max(left, e.to-now)
		}
	}
	return left
}

func (in *instance) isDead() bool { return in.dead.Load() }

// kill ends an engine as if its process had died: nothing of it is seen any
// more but what it has sent. Its goroutines are ended all the same.
func (in *instance) kill() {
	in.dead.Store(true)
	in.w.h.add(event{kind: died, who: in.name})
	in.end()
	gone, stop := context.WithCancel(context.Background())
	stop()
	_ = in.Close(gone)
	in.hangUp()
}

func (in *instance) hangUp() {
	for _, c := range in.clients {
		_ = c.Close()
	}
}

// count numbers what is sent under one name.
func (in *instance) count(name string) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.sent[name]++
	return in.sent[name]
}

func (in *instance) ledgerFate(method string, d fallback.Digest) fate {
	name := fmt.Sprint(in.name, method, d)
	return in.w.plan.fate(in.w.plan.ledger, name, in.count(name))
}

func (in *instance) redisFate(what string, node int) fate {
	name := fmt.Sprint(in.name, what, node)
	return in.w.plan.fate(in.w.plan.redis, name, in.count(name))
}

// onArrival is what a statement meets at the ledger.
func (in *instance) onArrival(kind fateKind) fateKind {
	switch w := in.w; {
	case w.on(ledgerOut, in.slot):
		return refused
	case w.on(ledgerSilent, in.slot):
		return silent
	case w.calm():
		return fine
	}
	return kind
}

// onWay is what a packet or a connection meets at a node.
func (in *instance) onWay(node int, kind fateKind) fateKind {
	switch w := in.w; {
	case in.isDead(), w.on(redisOut, in.slot), w.on(nodeOut, node):
		return refused
	case w.on(nodeSilent, node):
		return silent
	case w.calm():
		return fine
	}
	return kind
}
