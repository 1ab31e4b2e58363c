package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
	"github.com/redfence/redfence/redfencehttp"
)

// middleware is what the arguments say of the policy.
func (o options) middleware() ([]redfencehttp.Option, error) {
	takeover, ok := map[string]redfence.Takeover{"hold": redfence.Hold, "retry": redfence.Retry}[o.policy]
	if !ok {
		return nil, fmt.Errorf("-policy %q: want hold or retry", o.policy)
	}
	return []redfencehttp.Option{
		redfencehttp.OnAbandoned(takeover), redfencehttp.Lease(o.lease),
		redfencehttp.MaxProcessing(o.maxProcessing), redfencehttp.Retention(o.retention),
	}, nil
}

// openEngine returns the service behind the real engine, and what ends it.
func openEngine(ctx context.Context, o options, nodes []redis.UniversalClient, pool *pgxpool.Pool) (http.Handler, func(context.Context) error, error) {
	ledger, err := fallback.Open(ctx, pool, fallback.Config{Migrate: true})
	if err != nil {
		return nil, nil, err
	}
	to := recorder.NewClient(o.recorder)
	routes, breakers := &instance.Routes{}, instance.TellBreakers(o.name, to)
	eng, err := redfence.New(ctx, redfence.Config{Nodes: nodes, Ledger: ledger, Owner: o.name, Observer: observe.Tee(routes, breakers)})
	if err != nil {
		breakers.Close()
		return nil, nil, errors.Join(err, ledger.Close())
	}
	service := &instance.Service{Name: o.name, Recorder: to, Routes: routes}
	end := func(ctx context.Context) error {
		defer breakers.Close()
		return errors.Join(eng.Close(ctx), closeRedlock(service), ledger.Close())
	}
	if err := o.serveMore(ctx, service, nodes, pool); err != nil {
		return nil, nil, errors.Join(err, end(ctx))
	}
	if service.Options, err = o.middleware(); err != nil {
		return nil, nil, errors.Join(err, end(ctx))
	}
	handler, err := service.Handler(eng)
	if err != nil {
		return nil, nil, errors.Join(err, end(ctx))
	}
	return handler, end, nil
}

// serveMore gets ready for transfers and plain locks, as far as asked for.
func (o options) serveMore(ctx context.Context, service *instance.Service, nodes []redis.UniversalClient, pool *pgxpool.Pool) error {
	if o.transfers {
		if _, err := pool.Exec(ctx, instance.AccountTables); err != nil {
			return err
		}
	}
	if !o.redlock {
		return nil
	}
	redlock, err := lock.New(ctx, nodes, lock.Config{TTL: instance.LockTTL, MaxTTL: instance.RedlockMaxTTL, Owner: o.name})
	if err == nil {
		service.Redlock = redlock
	}
	return err
}

func closeRedlock(s *instance.Service) error {
	if redlock, ok := s.Redlock.(*lock.Redlock); ok {
		return redlock.Close()
	}
	return nil
}

// openBaseline returns the service behind a baseline.
func openBaseline(ctx context.Context, o options, nodes []redis.UniversalClient, pool *pgxpool.Pool) (http.Handler, func(context.Context) error, error) {
	wrap, err := baseline.New(ctx, o.engine, baseline.Config{Nodes: nodes, Pool: pool, Lease: o.lease, Retention: o.retention})
	if err != nil {
		return nil, nil, err
	}
	service := &instance.Service{Name: o.name, Recorder: recorder.NewClient(o.recorder)}
	return service.Behind(wrap), func(context.Context) error { return nil }, nil
}
