package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/redfence/redfence/internal/servers"
)

// RedisServer is one Redis node for a test or a program: a process of our own,
// or, for a test that was pointed at one, a server that is not ours.
type RedisServer struct {
	own    *servers.Redis // nil: not ours
	addr   string
	url    string
	client *redis.Client
}

// StartRedis starts an empty redis-server and returns once it answers. ctx
// bounds the start only; the server lives until Close.
func StartRedis(ctx context.Context, o RedisOptions) (*RedisServer, error) {
	own, err := servers.StartRedis(ctx, o)
	if err != nil {
		return nil, err
	}
	return &RedisServer{own: own, addr: own.Addr(), url: own.URL(), client: own.Client()}, nil
}

// Redis returns n empty redis-servers of the test's own, which end with it.
// With REDFENCE_TEST_REDIS_URLS set it returns the first n of those instead,
// with whatever they hold.
func Redis(t testing.TB, n int) []*RedisServer {
	t.Helper()
	if urls := os.Getenv(redisVariable); urls != "" {
		return foreignRedis(t, strings.Split(urls, ","), n)
	}
	nodes := make([]*RedisServer, n)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range nodes {
		group.Go(func() (err error) {
			nodes[i], err = StartRedis(ctx, RedisOptions{})
			return err
		})
	}
	err := group.Wait()
	t.Cleanup(func() {
		for _, node := range nodes {
			closeServer(t, node)
		}
	})
	if err != nil {
		unavailable(t, err)
	}
	return nodes
}

func closeServer(t testing.TB, node *RedisServer) {
	t.Helper()
	if node == nil {
		return
	}
	if err := node.Close(); err != nil {
		t.Errorf("close a server: %v", err)
	}
}

func foreignRedis(t testing.TB, urls []string, n int) []*RedisServer {
	t.Helper()
	if len(urls) < n {
		t.Fatalf("this test needs %d Redis servers, %s names %d", n, redisVariable, len(urls))
	}
	nodes := make([]*RedisServer, n)
	for i := range nodes {
		options, err := redis.ParseURL(strings.TrimSpace(urls[i]))
		if err != nil {
			t.Fatalf("%s, entry %d: %v", redisVariable, i+1, err)
		}
		options.ContextTimeoutEnabled, options.MaxRetries, options.DialerRetries = true, -1, 1
		client := redis.NewClient(options)
		client.AddHook(gentle{})
		nodes[i] = &RedisServer{addr: options.Addr, url: strings.TrimSpace(urls[i]), client: client}
		t.Cleanup(func() { closeServer(t, nodes[i]) })
	}
	return nodes
}

// errNotOurs is the reason for refusing to harm a server.
var errNotOurs = fmt.Errorf("this server was not started by the test (%s or %s is set), so it is not killed, paused, restarted or flushed: unset the variable to run this test", redisVariable, postgresVariable)

// Addr returns host:port; it stays the same across restarts.
func (r *RedisServer) Addr() string { return r.addr }

// URL returns the address as a redis:// URL.
func (r *RedisServer) URL() string { return r.url }

// Client returns a client with the options that the engine asks of a node,
// shared by all callers and closed with the server.
func (r *RedisServer) Client() *redis.Client { return r.client }

// Pid returns the process id, 0 while the server is down or not ours.
func (r *RedisServer) Pid() int {
	if r.own == nil {
		return 0
	}
	return r.own.Pid()
}

// Kill ends the server with SIGKILL and waits until it is gone.
func (r *RedisServer) Kill() error { return r.harm((*servers.Redis).Kill) }

// Pause stops the server with SIGSTOP: connections stay open, nothing answers.
func (r *RedisServer) Pause() error { return r.harm((*servers.Redis).Pause) }

// Resume lets a paused server go on.
func (r *RedisServer) Resume() error { return r.harm((*servers.Redis).Resume) }

// Restart kills the server if it runs and starts an empty one on the same port.
func (r *RedisServer) Restart() error { return r.harm((*servers.Redis).Restart) }

// RestartKeepingData starts the server again with what its append-only file
// holds, or, without one, what it can save now if it runs.
func (r *RedisServer) RestartKeepingData() error {
	return r.harm((*servers.Redis).RestartKeepingData)
}

func (r *RedisServer) harm(do func(*servers.Redis) error) error {
	if r.own == nil {
		return errNotOurs
	}
	return do(r.own)
}

// Close closes the client, and kills the server if it is ours. It is
// idempotent.
func (r *RedisServer) Close() error {
	if r.own != nil {
		return r.own.Close()
	}
	if err := r.client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
		return err
	}
	return nil
}

// gentle refuses commands that would harm a server that is not ours.
type gentle struct{}

var harmful = map[string]bool{"flushall": true, "flushdb": true, "shutdown": true, "debug": true, "config": true}

func (gentle) DialHook(next redis.DialHook) redis.DialHook { return next }

func (gentle) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := refuse(cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (gentle) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if err := refuse(cmd); err != nil {
				return err
			}
		}
		return next(ctx, cmds)
	}
}

// refuse returns the reason and leaves it in the command too, because that is
// where most callers look.
func refuse(cmd redis.Cmder) error {
	name := strings.ToLower(cmd.Name())
	pause := name == "client" && len(cmd.Args()) > 1 && strings.EqualFold(fmt.Sprint(cmd.Args()[1]), "pause")
	if !harmful[name] && !pause {
		return nil
	}
	err := fmt.Errorf("%s: %w", name, errNotOurs)
	cmd.SetErr(err)
	return err
}
