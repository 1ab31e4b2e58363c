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

// noNearCache makes replays come from Redis.
const noNearCache = -1

// Engine is Do of our engine on the primary route, with replays from Redis.
var Engine = DoContender{
	Name:    "redfence",
	Options: "Engine.Do, primary route: cache and Redlock on a majority of the nodes, Postgres ledger; near cache off, secret set; pgx pool of 16 connections",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		return OpenEngine(ctx, s, noNearCache)
	},
}

// EngineNear is our engine as it comes: with its near cache.
var EngineNear = DoContender{
	Name:    "redfence-near",
	Options: "as redfence, near cache on",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		return OpenEngine(ctx, s, 0)
	},
}

// EngineFallback is Do of our engine kept on the fallback route, with its
// near cache.
var EngineFallback = DoContender{
	Name:    "redfence-fallback",
	Options: "Engine.Do, fallback route: Postgres ledger only; near cache on; pgx pool of 16 connections",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		d, err := OpenEngine(ctx, s, 0)
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
	clients []redis.UniversalClient
}

// OpenEngine opens an engine as a process of its own would. nearCache is
// redfence.Config.NearCache.
func OpenEngine(ctx context.Context, s Servers, nearCache int64) (*EngineDoer, error) {
	pool, err := openPool(ctx, s.Postgres, 16)
	if err != nil {
		return nil, err
	}
	d := &EngineDoer{pool: pool}
	if d.ledger, err = fallback.Open(ctx, pool, fallback.Config{Migrate: true}); err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	if d.clients, err = lock.Dial(s.Redis...); err != nil {
		return nil, errors.Join(err, d.closeStores())
	}
	d.engine, err = redfence.New(ctx, redfence.Config{
		Nodes: d.clients, Ledger: d.ledger, NearCache: nearCache,
		Secrets: []redfence.Secret{{ID: 1, Key: []byte("benchmark's own secret, not a real one")}},
	})
	if err != nil {
		return nil, errors.Join(err, d.closeStores())
	}
	return d, nil
}

// Do implements Doer.
func (d *EngineDoer) Do(ctx context.Context, id string, work Work) ([]byte, bool, error) {
	res, err := d.Run(ctx, id, work)
	return res.Response.Body, res.Outcome != redfence.Executed, err
}

// Run is Do with the engine's own result. A response that is not durable is a
// failure.
func (d *EngineDoer) Run(ctx context.Context, id string, work Work) (redfence.Result, error) {
	req := redfence.Request{Scope: "bench", ID: id, Fingerprint: redfence.Fingerprint{Version: 1, Sum: []byte(id)}}
	res, err := d.engine.Do(ctx, req, func(context.Context, *redfence.Execution) (redfence.Response, error) {
		body, err := work()
		return redfence.Response{Status: 200, Body: body}, err
	})
	if err == nil && !res.Durable {
		err = errors.New("redfence: the response is not durable")
	}
	return res, err
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
