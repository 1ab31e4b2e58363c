package contend

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// Naive is what people put together from a tutorial: look in the cache, look
// in the table, lock, look again, run, put into the cache, unlock. Nothing is
// durable and a paused owner runs twice.
var Naive = DoContender{
	Name:    "naive",
	Options: "GET, SELECT, stock redsync, run, SET, unlock; nothing durable",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		return openNaive(ctx, s, false)
	},
}

// NaiveDurable is the same with a claim before and a completion after the
// work, a statement each.
var NaiveDurable = DoContender{
	Name:    "naive-durable",
	Options: "GET, SELECT, stock redsync, INSERT … ON CONFLICT DO NOTHING, run, UPDATE, SET, unlock; pgx pool of 80 connections, in a storm of all processes together",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		return openNaive(ctx, s, true)
	},
}

// LedgerOnly is the durable composition without Redis: every request goes to
// the table.
var LedgerOnly = DoContender{
	Name:    "ledger-only",
	Options: "INSERT … ON CONFLICT DO NOTHING, run, UPDATE; SELECT for duplicates, polled every 10 ms while in flight; pgx pool of 80 connections, in a storm of all processes together",
	Open: func(ctx context.Context, s Servers) (Doer, error) {
		pool, err := openTable(ctx, s)
		if err != nil {
			return nil, err
		}
		return &ledgerOnly{pool}, nil
	},
}

var (
	//go:embed sql/once_table.sql
	onceTable string
	//go:embed sql/once_read.sql
	onceRead string
	//go:embed sql/once_claim.sql
	onceClaim string
	//go:embed sql/once_complete.sql
	onceComplete string
)

// errBusy says that another run of the id is in flight.
var errBusy = errors.New("in progress")

func openTable(ctx context.Context, s Servers) (*pgxpool.Pool, error) {
	pool, err := openPool(ctx, s.Postgres, int32(max(1, 80/max(1, s.Processes))))
	if err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, onceTable); err != nil {
		pool.Close()
		return nil, fmt.Errorf("make the table of the naive contenders: %w", err)
	}
	return pool, nil
}

type naive struct {
	clients []*redis.Client
	locks   *redsyncLocker
	pool    *pgxpool.Pool
	durable bool
}

func openNaive(ctx context.Context, s Servers, durable bool) (Doer, error) {
	pool, err := openTable(ctx, s)
	if err != nil {
		return nil, err
	}
	clients := dial(s.Redis, nil)
	return &naive{clients: clients, locks: newRedsync(clients), pool: pool, durable: durable}, nil
}

func (d *naive) Do(ctx context.Context, id string, work Work) ([]byte, bool, error) {
	if response, ok, err := d.lookUp(ctx, id); ok || err != nil {
		return response, ok, err
	}
	unlock, err := d.locks.Lock(ctx, "lock:"+id)
	if errors.Is(err, redsync.ErrFailed) {
		return nil, false, errBusy
	}
	if err != nil {
		return nil, false, err
	}
	response, replayed, err := d.locked(ctx, id, work)
	return response, replayed, errors.Join(err, unlock(ctx))
}

func (d *naive) lookUp(ctx context.Context, id string) ([]byte, bool, error) {
	response, err := d.clients[0].Get(ctx, "response:"+id).Bytes()
	if err == nil {
		return response, true, nil
	}
	if !errors.Is(err, redis.Nil) {
		return nil, false, err
	}
	return readOnce(ctx, d.pool, id)
}

func (d *naive) locked(ctx context.Context, id string, work Work) ([]byte, bool, error) {
	// Whoever waited for the lock finds the response now.
	response, err := d.clients[0].Get(ctx, "response:"+id).Bytes()
	if err == nil {
		return response, true, nil
	}
	if d.durable {
		claimed, err := claimOnce(ctx, d.pool, id)
		if err != nil {
			return nil, false, err
		}
		if !claimed {
			return readOnce(ctx, d.pool, id)
		}
	}
	if response, err = work(); err != nil {
		return nil, false, err
	}
	if d.durable {
		if _, err := d.pool.Exec(ctx, onceComplete, id, response); err != nil {
			return nil, false, err
		}
	}
	return response, false, d.clients[0].Set(ctx, "response:"+id, response, time.Hour).Err()
}

func (d *naive) Close() error { d.pool.Close(); return closeAll(d.clients) }

type ledgerOnly struct{ pool *pgxpool.Pool }

func (d *ledgerOnly) Do(ctx context.Context, id string, work Work) ([]byte, bool, error) {
	claimed, err := claimOnce(ctx, d.pool, id)
	if err != nil {
		return nil, false, err
	}
	if claimed {
		response, err := work()
		if err != nil {
			return nil, false, err
		}
		_, err = d.pool.Exec(ctx, onceComplete, id, response)
		return response, false, err
	}
	for {
		response, done, err := readOnce(ctx, d.pool, id)
		if done || err != nil {
			return response, done, err
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (d *ledgerOnly) Close() error { d.pool.Close(); return nil }

// readOnce returns the response of an id that is complete.
func readOnce(ctx context.Context, pool *pgxpool.Pool, id string) ([]byte, bool, error) {
	var response []byte
	err := pool.QueryRow(ctx, onceRead, id).Scan(&response)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	return response, err == nil, err
}

func claimOnce(ctx context.Context, pool *pgxpool.Pool, id string) (bool, error) {
	tag, err := pool.Exec(ctx, onceClaim, id)
	return tag.RowsAffected() == 1, err
}
