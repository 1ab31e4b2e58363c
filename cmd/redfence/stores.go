package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/lock"
)

// contactTimeout bounds the first contact with a store.
const contactTimeout = 5 * time.Second

// nodeFlags name the Redis nodes.
type nodeFlags struct {
	Redis []string `placeholder:"URL" env:"REDFENCE_REDIS,REDIS_URL" help:"Independent Redis masters, an odd number, usually five: redis:// or rediss:// URLs or host:port, separated by commas (also REDIS_URL)."`
}

// clients makes a client per node and reports every URL that is wrong.
func (f nodeFlags) clients(list *problems.List) nodes {
	if len(f.Redis) == 0 {
		list.Add("--redis: none; name an odd number of independent Redis masters, usually 5 (or set REDIS_URL)")
	}
	var made nodes
	for i, text := range f.Redis {
		client, err := dialNode(strings.TrimSpace(text))
		if err != nil {
			list.Add("--redis, entry %d: %w", i+1, err)
			continue
		}
		made = append(made, client)
	}
	return made
}

// dialNode makes a client of a URL or host:port, with the options that safety
// depends on.
func dialNode(text string) (*redis.Client, error) {
	if text == "" {
		return nil, errors.New("empty; give redis://host:port")
	}
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	clients, err := lock.Dial(text)
	if err != nil || len(clients) != 1 {
		// The cause may repeat the URL, and with it the password.
		return nil, errors.New("not a Redis URL; give redis://user:password@host:port or host:port")
	}
	return clients[0].(*redis.Client), nil
}

// nodes are the clients of the Redis nodes.
type nodes []*redis.Client

func (n nodes) universal() []redis.UniversalClient {
	all := make([]redis.UniversalClient, len(n))
	for i, client := range n {
		all[i] = client
	}
	return all
}

func (n nodes) close() error {
	var errs []error
	for _, client := range n {
		errs = append(errs, client.Close())
	}
	return errors.Join(errs...)
}

// ledgerFlags name the database.
type ledgerFlags struct {
	Database string `placeholder:"URL" env:"REDFENCE_DATABASE,DATABASE_URL" help:"Postgres that keeps the ledger: a postgres:// URL (also DATABASE_URL)."`
	Schema   string `default:"public" help:"Schema of the ledger's tables."`
}

// pool makes a pool without connecting and reports what is wrong with the
// URL.
func (f ledgerFlags) pool(ctx context.Context, list *problems.List) *pgxpool.Pool {
	if f.Database == "" {
		list.Add("--database: none; give a postgres:// URL (or set DATABASE_URL)")
		return nil
	}
	cfg, err := pgxpool.ParseConfig(f.Database)
	if err != nil {
		// The library's error hides the password, but not always the rest.
		list.Add("--database: not a Postgres URL; give postgres://user:password@host:port/database")
		return nil
	}
	cfg.ConnConfig.ConnectTimeout = contactTimeout
	if !strings.Contains(f.Database, "pool_max_conns") {
		cfg.MaxConns = 16
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		list.Add("--database: %w", err)
		return nil
	}
	return pool
}

const nextForPostgres = "check --database, and that the server runs"

// connected returns a pool whose database answers.
func (f ledgerFlags) connected(ctx context.Context) (*pgxpool.Pool, error) {
	var list problems.List
	pool := f.pool(ctx, &list)
	if err := invalid(&list); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, &advised{fmt.Errorf("Postgres does not answer: %w", err), nextForPostgres}
	}
	return pool, nil
}
