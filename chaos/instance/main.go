// Command instance is one engine instance of a chaos run: the real middleware
// and engine over the Redis nodes in REDIS_URL and the Postgres in
// DATABASE_URL, and a handler whose effect is a line in the run's recorder.
// The chaos controller builds and starts it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/chaos/internal/instance"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/fallback"
)

// drainLimit bounds how long an instance takes to end in good order.
const drainLimit = 10 * time.Second

func main() {
	name := flag.String("name", "instance", "name in the recorder's log")
	record := flag.String("recorder", "", "URL of the recorder")
	addressFile := flag.String("address-file", "", "file that gets host:port once the instance serves")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *name, *record, *addressFile); err != nil {
		fmt.Fprintln(os.Stderr, "instance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, record, addressFile string) (err error) {
	nodes, err := dial(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	ledger, err := fallback.Open(ctx, pool, fallback.Config{Migrate: true})
	if err != nil {
		return err
	}
	drain := func(what func(context.Context) error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
		defer cancel()
		err = errors.Join(err, what(limited))
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	routes := &instance.Routes{}
	eng, err := redfence.New(ctx, redfence.Config{Nodes: nodes, Ledger: ledger, Owner: name, Observer: routes})
	if err != nil {
		return err
	}
	defer drain(eng.Close)
	service := &instance.Service{Name: name, Recorder: recorder.NewClient(record), Routes: routes}
	handler, err := service.Handler(eng)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	defer drain(server.Shutdown)
	return serve(ctx, server, addressFile)
}

// dial makes clients with the options that the engine asks for.
func dial(urls string) ([]redis.UniversalClient, error) {
	var nodes []redis.UniversalClient
	for url := range strings.SplitSeq(urls, ",") {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("REDIS_URL: %w", err)
		}
		options.ContextTimeoutEnabled, options.MaxRetries, options.DialerRetries = true, -1, 1
		nodes = append(nodes, redis.NewClient(options))
	}
	return nodes, nil
}

// serve listens on a free port, tells which, and returns when ctx is done.
func serve(ctx context.Context, server *http.Server, addressFile string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	unfinished := addressFile + ".new" // renamed, so that nobody reads half of it
	if err := os.WriteFile(unfinished, []byte(listener.Addr().String()), 0o644); err != nil {
		return err
	}
	if err := os.Rename(unfinished, addressFile); err != nil {
		return err
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}
