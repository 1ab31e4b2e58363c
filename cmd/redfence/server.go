package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/gateway"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
	"github.com/redfence/redfence/redfenceprom"
)

// retryPause is the time between two tries to reach the ledger.
const retryPause = time.Second

// server is a running gateway with what it stands on.
type server struct {
	command *serveCommand
	config  redfence.Config
	handler http.Handler
	longest time.Duration // of one execution; 0: the default
	later   *laterEngine
	nodes   nodes
	pool    *pgxpool.Pool
	ledger  *fallback.Postgres // nil until the database has answered
	counts  *redfenceprom.Collector
	events  *observe.Fanout
	log     *slog.Logger
}

// firstContact tries the ledger once. What only an operator can put right goes
// into the list; a database that does not answer does not.
func (s *server) firstContact(ctx context.Context, list *problems.List) {
	err := s.connect(ctx)
	if err == nil {
		return
	}
	fatal := s.fatal(ctx, err)
	if fatal == nil {
		s.log.Warn("the ledger cannot be reached; trying again", "error", oneLine(err))
		return
	}
	for _, problem := range problems.All(fatal) {
		list.Add("--database: %w", problem)
	}
}

// fatal returns what trying again cannot cure, nil when it may.
func (s *server) fatal(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	if s.pool.Ping(ctx) != nil {
		return nil // not reached at all
	}
	found, checkErr := fallback.Check(ctx, s.pool, s.ledgerConfig())
	if checkErr != nil {
		return err
	}
	var list problems.List
	for _, f := range found {
		if f.Fatal {
			list.Add("%s: %s", f.What, f.Fix)
		}
	}
	return list.Err()
}

// observer receives the events of ledger and engine.
func (s *server) observer() observe.Observer { return observe.Tee(s.counts, s.events) }

func (s *server) ledgerConfig() fallback.Config {
	return fallback.Config{
		Schema:   s.command.Schema,
		Migrate:  s.command.Migrate || s.command.Demo,
		Observer: s.observer(),
	}
}

// connect opens the ledger.
func (s *server) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	ledger, err := fallback.Open(ctx, s.pool, s.ledgerConfig())
	if err != nil {
		return err
	}
	s.ledger = ledger
	return nil
}

// run serves until the program is told to end, then drains.
func (s *server) run(a *app, listener net.Listener) error {
	if err := s.announce(a, listener); err != nil {
		return errors.Join(err, listener.Close(), s.closeStores())
	}
	web := gateway.NewServer(s.handler, s.longest)
	web.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)
	err := s.serve(a.ctx, web, listener)
	if err == nil {
		s.leave()
	}
	return errors.Join(err, s.drain(web))
}

// serve returns when the program is told to end (nil) or cannot go on. By then
// nothing connects any more.
func (s *server) serve(ctx context.Context, web *http.Server, listener net.Listener) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	serving, starting := make(chan error, 1), make(chan error, 1)
	go func() { serving <- web.Serve(listener) }()
	started := starting
	go func() { starting <- s.start(ctx) }()
	for err == nil && ctx.Err() == nil {
		select {
		case err = <-serving:
		case err = <-started:
			started = nil
		case <-ctx.Done():
		}
	}
	cancel()
	if started != nil {
		<-started
	}
	return err
}

// announce tells where everything is.
func (s *server) announce(a *app, listener net.Listener) error {
	c := s.command
	if c.EnvFile != "" {
		if err := os.WriteFile(c.EnvFile, []byte(environment(c)), 0o600); err != nil {
			return fmt.Errorf("--env-file: %w", err)
		}
	}
	if c.Demo {
		fmt.Fprint(a.stdout, environment(c))
	}
	_, err := fmt.Fprint(a.stdout, c.describe("http://"+listener.Addr().String()))
	return err
}

// start reaches the ledger, however long it takes, and lets the engine in.
func (s *server) start(ctx context.Context) error {
	for s.ledger == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPause):
		}
		if err := s.connect(ctx); err != nil {
			if fatal := s.fatal(ctx, err); fatal != nil {
				return fmt.Errorf("the ledger: %w", fatal)
			}
			s.log.Warn("the ledger cannot be reached; trying again", "error", oneLine(err))
		}
	}
	s.config.Ledger, s.config.Observer = s.ledger, s.observer()
	engine, err := redfence.New(ctx, s.config)
	if err != nil {
		return err
	}
	s.later.engine.Store(engine)
	s.log.Info("ready", "route", engine.Route())
	return nil
}

// leave says that the gateway is not ready, and lets requests in for as long as
// a load balancer takes to notice.
func (s *server) leave() {
	s.later.draining.Store(true)
	if s.command.DrainDelay > 0 {
		s.log.Info("leaving", "requests_for", s.command.DrainDelay)
		time.Sleep(s.command.DrainDelay)
	}
}

// drain lets nothing new in, waits for what is under way, and closes
// everything in the order of its use.
func (s *server) drain(web *http.Server) error {
	s.later.draining.Store(true)
	s.log.Info("draining", "for_at_most", s.command.DrainTimeout)
	start := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), s.command.DrainTimeout)
	defer cancel()
	err := web.Shutdown(ctx)
	if engine := s.later.engine.Load(); engine != nil {
		err = errors.Join(err, engine.Close(ctx))
	}
	if err = errors.Join(err, s.closeStores()); err == nil {
		s.log.Info("drained", "took", time.Since(start).Round(time.Millisecond))
	}
	return err
}

func (s *server) closeStores() error {
	var errs []error
	if s.ledger != nil {
		errs = append(errs, s.ledger.Close())
	}
	errs = append(errs, s.nodes.close())
	if s.pool != nil {
		s.pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), contactTimeout)
	defer cancel()
	return errors.Join(append(errs, s.events.Close(ctx))...)
}
