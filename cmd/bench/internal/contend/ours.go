package contend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

// Unguarded is the engine's processing lock: our Redlock without restart
// guard and fences, because the ledger arbitrates.
var Unguarded = LockContender{
	Name:    "redfence-unguarded",
	Options: "all nodes, lock.Config{Unguarded: true}",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		return openOurs(ctx, s, lock.Config{Unguarded: true})
	},
}

// Guarded is our stand-alone lock: restart guard and fences on.
var Guarded = LockContender{
	Name:    "redfence",
	Options: "all nodes, lock.Config{}: restart guard and fences",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		return openOurs(ctx, s, lock.Config{})
	},
}

// Direct is our stand-alone lock with its own count of the votes.
var Direct = LockContender{
	Name:    "redfence-direct",
	Options: "all nodes, lock.Config{Direct: true}: restart guard and fences, without redsync",
	Open: func(ctx context.Context, s Servers) (Locker, error) {
		return openOurs(ctx, s, lock.Config{Direct: true})
	},
}

type oursLocker struct {
	clients []*redis.Client
	locker  *lock.Redlock
}

// dialOurs makes clients with the options that safety depends on.
func dialOurs(addrs []string) (clients []*redis.Client, nodes []redis.UniversalClient) {
	clients = dial(addrs, func(o *redis.Options) { o.ContextTimeoutEnabled, o.MaxRetries = true, -1 })
	for _, c := range clients {
		nodes = append(nodes, c)
	}
	return clients, nodes
}

func openOurs(ctx context.Context, s Servers, cfg lock.Config) (Locker, error) {
	clients, nodes := dialOurs(s.Redis)
	locker, err := lock.New(ctx, nodes, cfg)
	if err != nil {
		return nil, errors.Join(err, closeAll(clients))
	}
	return &oursLocker{clients: clients, locker: locker}, nil
}

// Begin begins the deployment of the stand-alone lock on fresh nodes, so that
// they vote at once.
func Begin(ctx context.Context, s Servers) error {
	clients, nodes := dialOurs(s.Redis)
	return errors.Join(lock.Init(ctx, nodes), closeAll(clients))
}

func (l *oursLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	lease, err := l.locker.Acquire(ctx, name)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (l *oursLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	lease, err := l.locker.TryAcquire(ctx, name)
	if errors.Is(err, lock.ErrTaken) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return lease.Release, true, nil
}

func (l *oursLocker) Close() error { return errors.Join(l.locker.Close(), closeAll(l.clients)) }

// Engine is Do of our engine on the primary route.
var Engine = DoContender{
	Name:    "redfence",
	Options: "Engine.Do, primary route: cache on all nodes, Redlock, Postgres ledger; secret set; pgx pool of 16 connections",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		return OpenEngine(ctx, s)
	},
}

// EngineFallback is Do of our engine kept on the fallback route.
var EngineFallback = DoContender{
	Name:    "redfence-fallback",
	Options: "Engine.Do, fallback route: Postgres ledger only; pgx pool of 16 connections",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		d, err := OpenEngine(ctx, s)
		if err != nil {
			return nil, err
		}
		if err := d.engine.ForceRoute(observe.Fallback); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return d, nil
	},
}

// EngineDoer is an engine with the stores that it needs.
type EngineDoer struct {
	engine  *redfence.Engine
	ledger  *fallback.Postgres
	pool    *pgxpool.Pool
	clients []*redis.Client
}

// OpenEngine opens an engine as a process of its own would.
func OpenEngine(ctx context.Context, s Servers) (*EngineDoer, error) {
	pool, err := openPool(ctx, s.Postgres, 16)
	if err != nil {
		return nil, err
	}
	d := &EngineDoer{pool: pool}
	if d.ledger, err = fallback.Open(ctx, pool, fallback.Config{Migrate: true}); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	var nodes []redis.UniversalClient
	d.clients, nodes = dialOurs(s.Redis)
	d.engine, err = redfence.New(ctx, redfence.Config{
		Nodes: nodes, Ledger: d.ledger, NearCache: -1, // replays are measured from Redis
		Secrets: []redfence.Secret{{ID: 1, Key: []byte("benchmark's own secret, not a real one")}},
	})
	if err != nil {
		return nil, errors.Join(err, d.closeStores())
	}
	return d, nil
}

// Do implements Doer.
func (d *EngineDoer) Do(ctx context.Context, id string, work Work) ([]byte, bool, error) {
	req := redfence.Request{Scope: "bench", ID: id, Fingerprint: redfence.Fingerprint{Version: 1, Sum: []byte(id)}}
	res, err := d.engine.Do(ctx, req, func(context.Context, *redfence.Execution) (redfence.Response, error) {
		body, err := work()
		return redfence.Response{Status: 200, Body: body}, err
	})
	if err == nil && !res.Durable {
		err = errors.New("redfence: the response is not durable")
	}
	return res.Response.Body, res.Outcome != redfence.Executed, err
}

// Close drains the engine and frees connections.
func (d *EngineDoer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(d.engine.Close(ctx), d.closeStores())
}

func (d *EngineDoer) closeStores() error {
	err := errors.Join(d.ledger.Close(), closeAll(d.clients))
	d.pool.Close()
	return err
}
