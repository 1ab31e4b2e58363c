// Command instance is one engine instance of a chaos run: the real middleware
// and engine, or a baseline, over the Redis nodes in REDIS_URL and the Postgres
// in DATABASE_URL, and a handler whose effect is a line in the run's recorder.
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

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/lock"
)

// drainLimit bounds how long an instance takes to end in good order.
const drainLimit = 10 * time.Second

// options are the arguments.
type options struct {
	name, recorder       string
	listen, addressFile  string
	engine, policy       string
	lease, maxProcessing time.Duration
	retention            time.Duration
	transfers, redlock   bool
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "instance", "name in the recorder's log")
	flag.StringVar(&o.recorder, "recorder", "", "URL of the recorder")
	flag.StringVar(&o.addressFile, "address-file", "", "file that gets host:port once the instance serves")
	flag.StringVar(&o.listen, "listen", "", "host:port to serve at; empty: a free port of the loopback interface")
	flag.StringVar(&o.engine, "engine", baseline.Ours, "what stands before the handler: "+strings.Join(baseline.Names(), ", "))
	flag.StringVar(&o.policy, "policy", "hold", "what happens to abandoned claims: hold or retry")
	flag.DurationVar(&o.lease, "lease", 10*time.Second, "lease of a claim")
	flag.DurationVar(&o.maxProcessing, "max-processing", 5*time.Minute, "longest execution")
	flag.DurationVar(&o.retention, "retention", 24*time.Hour, "how long a response is kept")
	flag.BoolVar(&o.transfers, "transfers", false, "serve transfers between accounts")
	flag.BoolVar(&o.redlock, "redlock", false, "serve locks of a guarded deployment, which has begun")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "instance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	drain := func(what func(context.Context) error) {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
		defer cancel()
		err = errors.Join(err, what(limited))
	}
	nodes, err := lock.Dial(os.Getenv("REDIS_URL"))
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	pool, err := connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer pool.Close()
	open := openEngine
	if o.engine != baseline.Ours {
		open = openBaseline
	}
	handler, end, err := open(ctx, o, nodes, pool)
	if err != nil {
		return err
	}
	defer drain(end)
	server := &http.Server{Handler: handler}
	defer drain(server.Shutdown)
	return serve(ctx, server, o.listen, o.addressFile)
}

// poolSize leaves connections for the ledger while transfers hold theirs.
const poolSize = 12

func connect(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	config.MaxConns = poolSize
	return pgxpool.NewWithConfig(ctx, config)
}

// serve listens, tells where, and returns when ctx is done.
func serve(ctx context.Context, server *http.Server, address, addressFile string) error {
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := net.Listen("tcp", address)
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
