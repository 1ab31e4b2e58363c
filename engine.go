package redfence

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/breaker"
	"github.com/redfence/redfence/cache"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/keyring"
	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/payload"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

// An Engine runs the work of a key once among all engines that share its
// ledger. It is safe for concurrent use.
type Engine struct {
	cfg     Config
	ledger  fallback.Ledger
	ring    *keyring.Ring
	codec   *payload.Codec
	sets    []*node.Set
	locks   *lock.Redlock
	cache   *cache.Cache
	breaker *breaker.Breaker

	flights    flights
	observed   bool // somebody listens
	eager      eagerness
	queues     queues
	slots      slots
	work       work // calls of Do
	held       leases
	background *background
}

// compressAbove is the size in bytes from which stored responses are
// compressed.
const compressAbove = 1024

// New composes an engine. It succeeds with every Redis node down: requests
// then take the fallback route until a quorum is back. The error lists every
// problem of the configuration.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	observed := cfg.Observer != nil
	cfg = cfg.withDefaults()
	var list problems.List
	cfg.check(&list)
	e := &Engine{cfg: cfg, observed: observed, ledger: cfg.Ledger, slots: slots{most: int64(cfg.MaxInFlight)}}
	list.AddErr(e.connect(len(cfg.Nodes) > 0))
	if err := list.Err(); err != nil {
		e.closeRooms()
		return nil, fmt.Errorf("redfence: %w", err)
	}
	e.observeStart()
	e.background = newBackground(e)
	if err := e.greetLedger(ctx); err != nil {
		e.closeRooms()
		return nil, fmt.Errorf("redfence: %w", err)
	}
	return e, nil
}

// connect builds the rooms that live on Redis.
func (e *Engine) connect(any bool) error {
	if !any {
		return nil // said by Config.check
	}
	var list problems.List
	var err error
	e.ring, _ = e.cfg.keyring()
	e.codec = &payload.Codec{CompressAbove: compressAbove, Ring: e.ring, Seal: e.cfg.Seal}
	nodes := e.newSet(&list, "Nodes", e.cfg.Nodes)
	cacheNodes := nodes
	if len(e.cfg.CacheNodes) > 0 {
		cacheNodes = e.newSet(&list, "CacheNodes", e.cfg.CacheNodes)
	}
	if err := list.Err(); err != nil {
		return err
	}
	e.locks, err = lock.NewOn(nodes, lock.Config{Unguarded: true, Observer: e.cfg.Observer})
	list.AddErr(err)
	e.cache, err = cache.NewOn(cacheNodes, cache.Config{
		TTL: e.cfg.CacheTTL, MaxBytes: e.cfg.CacheMaxBytes, NearBytes: max(0, e.cfg.NearCache), Keys: e.ring, Observer: e.cfg.Observer,
	})
	list.AddErr(err)
	if err := list.Err(); err != nil {
		return err
	}
	e.breaker, err = breaker.New(breaker.Config{Probe: e.locks.Probe, ProbeTimeout: e.cfg.NodeTimeout, Observer: e.cfg.Observer})
	return err
}

func (e *Engine) newSet(list *problems.List, name string, clients []redis.UniversalClient) *node.Set {
	set, err := node.NewSet(clients, node.Config{Timeout: e.cfg.NodeTimeout, TrustClients: e.cfg.TrustClients, Observer: e.cfg.Observer})
	if err != nil {
		list.Add("%s: %w", name, err)
		return nil
	}
	e.sets = append(e.sets, set)
	return set
}

// greetLedger compares the nodes with the ledger's, and reads a row that does
// not exist, so that the first cached record can be judged by the ledger's
// clock. A ledger that does not answer is no reason not to start.
func (e *Engine) greetLedger(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if _, err := e.ledger.Read(ctx, Key{}.in(doNamespace).Digest()); err != nil {
		return nil
	}
	return e.checkNodes(ctx)
}

// Route returns the route that this process takes now.
func (e *Engine) Route() observe.Route { return e.breaker.Route() }

// ForceRoute keeps this process on a route until it is called again with an
// empty one. It is for operators; safety does not depend on the route.
func (e *Engine) ForceRoute(route observe.Route) error { return e.breaker.Force(route) }

// Close lets no call in, waits for those under way and for the completions
// that the ledger has not confirmed, until ctx ends, and stops the engine's
// goroutines. Locks that are still held are lost: their contexts end, and they
// lapse with their TTL. What could not be drained is in the error; those keys are left
// to their leases. Clients and ledger stay the caller's.
func (e *Engine) Close(ctx context.Context) error {
	var list problems.List
	list.AddErr(e.work.drain(ctx, "executions"))
	list.AddErr(e.background.work.drain(ctx, "completions and releases"))
	e.background.stop()
	e.held.loseAll()
	select {
	case <-e.background.work.close():
	case <-ctx.Done(): // what is left ends with its last statement
	}
	e.closeRooms()
	if err := list.Err(); err != nil {
		return fmt.Errorf("redfence: close: %w", err)
	}
	return nil
}

func (e *Engine) closeRooms() {
	if e.breaker != nil {
		e.breaker.Close()
	}
	if e.locks != nil {
		e.locks.Close()
	}
	for _, set := range e.sets {
		set.Close()
	}
	if e.cache != nil {
		e.cache.Close()
	}
}

// processName names this process for people: host name and process id.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
