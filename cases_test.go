package redfence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/observe"
)

// The tests of this file carry the ids of faults that people met with other
// idempotency layers; each says what has to come out.

func TestI01StampedeOfOneKey(t *testing.T) {
	c := newCluster(t)
	var engines []*instance
	for range 3 {
		in := c.start(t, nil)
		in.redis.Jitter(3 * time.Millisecond)
		in.pg.Jitter(3 * time.Millisecond)
		engines = append(engines, in)
	}
	var work counter
	slow := func(ctx context.Context, ex *Execution) (Response, error) {
		resp, err := work.handle(ctx, ex)
		return resp, errors.Join(err, sleep(ctx, 200*time.Millisecond))
	}
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			req := Request{ID: "stampede"}
			if i%2 == 0 {
				req.Policy = noWait(testPolicy())
			}
			res, err := engines[i%3].Do(t.Context(), req, slow)
			switch {
			case errors.Is(err, ErrInProgress) && i%2 == 0:
			case err != nil:
				t.Errorf("caller %d: %v", i, err)
			case string(res.Response.Body) != "run 1" || !res.Durable:
				t.Errorf("caller %d: %q, durable %v", i, res.Response.Body, res.Durable)
			}
		})
	}
	group.Wait()
	work.want(t, 1)
}

func TestI02PausedBetweenCacheAndLock(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	var work counter
	key := Key{ID: "paused"}
	lockKey := []byte(key.in(doNamespace).Digest().String() + "}:l")
	reached, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	b.redis.OnWrite(func(sent []byte) {
		if bytes.Contains(sent, lockKey) {
			once.Do(func() { close(reached) })
			<-resume
		}
	})
	var group sync.WaitGroup
	group.Go(func() {
		res, err := b.Do(t.Context(), Request{ID: "paused"}, work.handle)
		wantResult(t, res, err, Replayed, "run 1")
	})
	<-reached
	res, err := a.Do(t.Context(), Request{ID: "paused"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	b.redis.OnWrite(nil)
	close(resume)
	group.Wait()
	work.want(t, 1)
}

// refuse makes every node answer with an error instead of a vote.
var refusals = map[string]func(*testing.T, *cluster){
	"READONLY": func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			must(t, n.Client().SlaveOf(t.Context(), "127.0.0.1", "1").Err())
		}
	},
	"OOM": func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			must(t, n.Client().ConfigSet(t.Context(), "maxmemory", "1").Err())
		}
	},
	"i/o time-out": func(t *testing.T, c *cluster) {
		for _, n := range c.nodes {
			must(t, n.Pause())
		}
	},
}

func TestI03RedisRefuses(t *testing.T) {
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			in := c.start(t, nil)
			refuse(t, c)
			served(t, in)
		})
	}
	t.Run("LOADING", func(t *testing.T) {
		c := newCluster(t)
		in := c.start(t, func(cfg *Config) {
			for i := range cfg.Nodes {
				cfg.Nodes[i] = loadingNode(t)
			}
		})
		served(t, in)
	})
}

// served: fresh keys and duplicates are served by the ledger, and no handler
// runs without a claim.
func served(t *testing.T, in *instance) {
	t.Helper()
	var work counter
	claimed := func(ctx context.Context, ex *Execution) (Response, error) {
		rec, err := in.Inspect(ctx, ex.Key())
		if err != nil || rec.State.String() != "processing" || rec.Fence != ex.Fence() {
			t.Errorf("in the handler: %v, fence %d, %v; want processing, fence %d", rec.State, rec.Fence, err, ex.Fence())
		}
		return work.handle(ctx, ex)
	}
	for i := range 5 {
		id := fmt.Sprint("key ", i)
		res, err := in.Do(t.Context(), Request{ID: id}, claimed)
		wantResult(t, res, err, Executed, fmt.Sprint("run ", i+1))
		res, err = in.Do(t.Context(), Request{ID: id}, claimed)
		wantResult(t, res, err, Replayed, fmt.Sprint("run ", i+1))
	}
	work.want(t, 5)
	if in.Route() != observe.Fallback {
		t.Error("the breaker did not open")
	}
}

// loadingNode is a server that answers every command as a Redis that loads its
// data does.
func loadingNode(t *testing.T) redis.UniversalClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { answerLoading(conn) })
		}
	})
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	t.Cleanup(func() { client.Close(); listener.Close(); group.Wait() })
	return client
}

func answerLoading(conn net.Conn) {
	defer conn.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		for range bytes.Count(buffer[:n], []byte("*")) { // one answer per command
			if _, err := conn.Write([]byte("-LOADING Redis is loading the dataset in memory\r\n")); err != nil {
				return
			}
		}
	}
}

func TestI04FiftyCallersRedisDown(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	c.killRedis(t)
	var work counter
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			res, err := in.Do(t.Context(), Request{ID: "one"}, work.handle)
			if err != nil || string(res.Response.Body) != "run 1" {
				t.Errorf("%q, %v", res.Response.Body, err)
			}
		})
	}
	group.Wait()
	work.want(t, 1)
}

func TestI05ExpiredRow(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	short := testPolicy()
	short.MaxProcessing, short.Retention = short.Lease, 300*time.Millisecond
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "old", Policy: &short}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	eventually(t, "the row has expired", func() bool {
		rec, err := in.Inspect(t.Context(), Key{ID: "old"})
		must(t, err)
		return rec.Expired()
	})
	for i, outcome := range []Outcome{Executed, Replayed, Replayed} {
		res, err := in.Do(t.Context(), Request{ID: "old"}, work.handle)
		if err != nil || res.Outcome != outcome || string(res.Response.Body) != "run 2" {
			t.Errorf("retry %d: %v %q %v, want %v", i, res.Outcome, res.Response.Body, err, outcome)
		}
	}
	work.want(t, 2)
}

func TestI06RedisDiesUnderTheHandler(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	var group sync.WaitGroup
	group.Go(func() {
		res, err := in.Do(t.Context(), Request{ID: "order"}, work.handle)
		wantResult(t, res, err, Executed, "run 1")
	})
	<-work.begun
	c.killRedis(t)
	close(work.block)
	group.Wait()
	res, err := in.Do(t.Context(), Request{ID: "order"}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	work.want(t, 1)
}

func TestI07BeforeDuringAfterTheOutage(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	var work counter
	replays := func(when string) {
		for _, in := range []*instance{a, b} {
			res, err := in.Do(t.Context(), Request{ID: "paid"}, work.handle)
			if err != nil || res.Outcome != Replayed || string(res.Response.Body) != "run 1" {
				t.Errorf("%s: %v %q %v", when, res.Outcome, res.Response.Body, err)
			}
		}
	}
	res, err := a.Do(t.Context(), Request{ID: "paid"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	replays("before")
	c.killRedis(t)
	for range 5 { // enough to open the breaker, and then through it
		replays("during")
	}
	c.restartRedis(t)
	eventually(t, "back on the primary route", func() bool {
		return a.Route() == observe.Primary && b.Route() == observe.Primary
	})
	replays("after")
	work.want(t, 1)
}

func TestI08OneInstanceCutOffFromRedis(t *testing.T) {
	c := newCluster(t)
	healthy, cut := c.start(t, nil), c.start(t, nil)
	cut.redis.Cut()
	for name, order := range map[string][]*instance{
		"healthy first": {healthy, cut, healthy}, "cut off first": {cut, healthy, cut},
	} {
		t.Run(name, func(t *testing.T) {
			var work counter
			for i, in := range order {
				res, err := in.Do(t.Context(), Request{ID: name}, work.handle)
				wantResult(t, res, err, map[bool]Outcome{true: Executed, false: Replayed}[i == 0], "run 1")
			}
			work.want(t, 1)
		})
		t.Run(name+", overlapping", func(t *testing.T) {
			work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
			var group sync.WaitGroup
			group.Go(func() {
				res, err := order[0].Do(t.Context(), Request{ID: name + " 2"}, work.handle)
				wantResult(t, res, err, Executed, "run 1")
			})
			<-work.begun
			_, err := order[1].Do(t.Context(), Request{ID: name + " 2", Policy: noWait(testPolicy())}, work.handle)
			wantErr(t, err, ErrInProgress)
			group.Go(func() {
				res, err := order[1].Do(t.Context(), Request{ID: name + " 2"}, work.handle)
				wantResult(t, res, err, Replayed, "run 1")
			})
			close(work.block)
			group.Wait()
			work.want(t, 1)
		})
	}
}

func TestI20TenantsNeverMeet(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	scopes := []string{"A", "B", "", "lock", "do", "a:b", "{x}", "a", "b", "ab", "k\x00"}
	run := func(phase string) map[string]string {
		bodies := make(map[string]string)
		for _, scope := range scopes {
			for _, id := range []string{"k", "b:k", "\x00k"} {
				res, err := in.Do(t.Context(), Request{Scope: scope, ID: phase + id}, func(context.Context, *Execution) (Response, error) {
					return Response{Status: 200, Body: []byte(scope + "|" + id)}, nil
				})
				must(t, err)
				if got, want := string(res.Response.Body), scope+"|"+id; got != want {
					t.Errorf("%s: scope %q, id %q got %q", phase, scope, id, got)
				}
				bodies[scope+"|"+id] = string(res.Response.Body)
			}
		}
		return bodies
	}
	run("primary")
	c.killRedis(t)
	run("primary") // across the fail-over
	if n := len(run("fallback")); n != len(scopes)*3 {
		t.Errorf("%d keys, want %d", n, len(scopes)*3)
	}
}
