package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// one returns a server and the node over it.
func one(t *testing.T, cfg Config) (*testenv.RedisServer, *Node) {
	t.Helper()
	server := testenv.Redis(t, 1)[0]
	return server, over(t, server.Client(), cfg)
}

func over(t *testing.T, client redis.UniversalClient, cfg Config) *Node {
	t.Helper()
	set, err := NewSet([]redis.UniversalClient{client}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set.Nodes()[0]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t testing.TB, check func() error) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestEveryCallerGetsItsAnswer(t *testing.T) {
	_, n := one(t, Config{Timeout: 5 * time.Second})
	var all sync.WaitGroup
	for caller := range 50 {
		all.Go(func() {
			for i := range 100 {
				want := fmt.Sprintf("%d-%d", caller, i)
				if got, err := n.Do(t.Context(), "ECHO", want); err != nil || got != want {
					t.Errorf("got %v, %v, want %s", got, err, want)
				}
			}
		})
	}
	all.Wait()
	if got, err := n.Do(t.Context(), "GET", "nothing"); got != nil || err != nil {
		t.Errorf("a nil reply: %v, %v", got, err)
	}
	_, err := n.Do(t.Context(), "NOSUCH")
	if !Answered(err) || Unsent(err) {
		t.Errorf("an error of the server: %v", err)
	}
}

func TestOrderIsKept(t *testing.T) {
	_, n := one(t, Config{Timeout: 5 * time.Second})
	const count = 5000
	var wrong, done atomic.Int64
	for i := range count {
		n.Send(&Op{Args: []any{"INCR", "n"}, To: ReceiverFunc(func(_ *Op, value any, err error) {
			if err != nil || value != int64(i+1) {
				wrong.Add(1)
			}
			done.Add(1)
		})})
	}
	eventually(t, func() error {
		if d := done.Load(); d != count {
			return fmt.Errorf("%d answers", d)
		}
		return nil
	})
	if w := wrong.Load(); w != 0 {
		t.Errorf("%d answers out of order", w)
	}
}

func TestHungNodeCostsNobodyAnything(t *testing.T) {
	var events recorder
	server, n := one(t, Config{Timeout: 50 * time.Millisecond, OpenFor: 50 * time.Millisecond, Observer: &events})
	_, err := n.Do(t.Context(), "PING")
	must(t, err)
	must(t, server.Pause())
	eventually(t, func() error {
		_, err := n.Do(t.Context(), "PING")
		if !errors.Is(err, ErrDown) {
			return fmt.Errorf("not down: %w", err)
		}
		return nil
	})
	before := runtime.NumGoroutine()
	start := time.Now()
	for range 1000 {
		if _, err := n.Do(t.Context(), "PING"); !Unsent(err) {
			t.Errorf("sent to a node that is down: %v", err)
		}
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("1000 refusals took %v", took)
	}
	if after := runtime.NumGoroutine(); after > before+5 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	must(t, server.Resume())
	eventually(t, func() error { _, err := n.Do(t.Context(), "PING"); return err })
	if down, up := eventsOf[observe.NodeDown](&events), eventsOf[observe.NodeUp](&events); len(down) != 1 || len(up) != 1 {
		t.Errorf("events: %v, %v", down, up)
	}
}

func TestCallersContextDoesNotHoldTheOthers(t *testing.T) {
	server, n := one(t, Config{Timeout: 300 * time.Millisecond})
	_, err := n.Do(t.Context(), "PING")
	must(t, err)
	must(t, server.Pause())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = n.Do(ctx, "SET", "k", "v")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 200*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	if Unsent(err) {
		t.Error("a command that is on its way counts as unsent")
	}
	_, err = n.Do(ctx, "SET", "k", "v")
	if !Unsent(err) {
		t.Errorf("a context that had ended before: %v", err)
	}
	must(t, server.Resume())
}

func TestCancelledCommandIsNotSent(t *testing.T) {
	server, n := one(t, Config{Timeout: 5 * time.Second})
	_, err := n.Do(t.Context(), "PING")
	must(t, err)
	must(t, server.Pause())
	first := make(chan error, 1)
	n.Send(&Op{Args: []any{"SET", "a", "1"}, To: ReceiverFunc(func(_ *Op, _ any, err error) { first <- err })})
	eventually(t, func() error { // the pipeline in flight holds the next one up
		if n.busyAt.Load() == 0 {
			return errors.New("nothing in flight")
		}
		return nil
	})
	second := make(chan error, 1)
	op := &Op{Args: []any{"SET", "b", "1"}, To: ReceiverFunc(func(_ *Op, _ any, err error) { second <- err })}
	n.Send(op)
	if !op.Cancel() {
		t.Error("a queued command cannot be cancelled")
	}
	must(t, server.Resume())
	must(t, <-first)
	if err := <-second; !errors.Is(err, ErrCancelled) || op.Cancel() {
		t.Errorf("the cancelled command: %v", err)
	}
	if got, err := n.Do(t.Context(), "EXISTS", "a", "b"); got != int64(1) || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFullQueue(t *testing.T) {
	server, n := one(t, Config{Timeout: 400 * time.Millisecond, Queue: 10})
	_, err := n.Do(t.Context(), "PING")
	must(t, err)
	must(t, server.Pause())
	nobody := ReceiverFunc(func(*Op, any, error) {})
	fill := func() error {
		var refused error
		for range 20 {
			n.Send(&Op{Args: []any{"PING"}, To: ReceiverFunc(func(op *Op, v any, err error) {
				if Unsent(err) {
					refused = err
				}
				nobody(op, v, err)
			})})
		}
		return refused
	}
	n.Send(&Op{Args: []any{"PING"}, To: nobody})
	eventually(t, func() error {
		if n.busyAt.Load() == 0 {
			return errors.New("nothing in flight")
		}
		return nil
	})
	if err := fill(); !errors.Is(err, ErrOverloaded) {
		t.Errorf("a queue that fills while the node answers in time: %v, want ErrOverloaded", err)
	}
	time.Sleep(150 * time.Millisecond)
	if err := fill(); !errors.Is(err, ErrDown) || errors.Is(err, ErrOverloaded) {
		t.Errorf("a queue behind a node that does not answer: %v, want ErrDown", err)
	}
	must(t, server.Resume())
}

func TestScriptThatTheServerForgot(t *testing.T) {
	script := NewScript("echo", "return {KEYS[1], ARGV[1]}")
	server, n := one(t, Config{Scripts: []*Script{script}, Timeout: 5 * time.Second})
	for range 3 {
		got, err := n.Eval(t.Context(), script, []string{"k"}, "v")
		if list, ok := got.([]any); err != nil || !ok || len(list) != 2 || list[1] != "v" {
			t.Errorf("%v, %v", got, err)
		}
		must(t, server.Client().ScriptFlush(t.Context()).Err())
	}
}

// binder counts what the loop tells.
type binder struct {
	binds  atomic.Int32
	resent atomic.Bool
	done   chan error
}

func (b *binder) Bind(op *Op) { op.Args[1] = strconv.Itoa(int(b.binds.Add(1))) }
func (b *binder) Reply(op *Op, value any, err error) {
	b.resent.Store(op.Resent())
	if err == nil && value != strconv.Itoa(int(b.binds.Load())) {
		err = fmt.Errorf("answer %v", value)
	}
	b.done <- err
}

func TestBrokenConnection(t *testing.T) {
	hellos := atomic.Int32{}
	server, n := one(t, Config{Timeout: 5 * time.Second, Hello: func(ctx context.Context, _ *Node, conn *redis.Conn) error {
		hellos.Add(1)
		return conn.Ping(ctx).Err()
	}})
	_, err := n.Do(t.Context(), "PING")
	must(t, err)
	must(t, server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	b := &binder{done: make(chan error, 1)}
	n.Send(&Op{Args: []any{"ECHO", ""}, To: b})
	must(t, <-b.done)
	if !b.resent.Load() || b.binds.Load() != 2 {
		t.Errorf("resent %v, bound %d times; want true and once per connection", b.resent.Load(), b.binds.Load())
	}
	if h := hellos.Load(); h != 2 {
		t.Errorf("%d hellos for two connections", h)
	}
}

// TestNothingReadIsNoAnswer: after READONLY the client gives its connection up
// without a word. That is no null reply, which means that a key is missing.
func TestNothingReadIsNoAnswer(t *testing.T) {
	server, n := one(t, Config{Timeout: 5 * time.Second})
	must(t, server.Client().SlaveOf(t.Context(), "127.0.0.1", "1").Err())
	for range 4 {
		value, err := n.Do(t.Context(), "SET", "k", "v", "NX")
		if err == nil {
			t.Fatalf("a replica answered %v to SET NX", value)
		}
	}
	must(t, server.Client().SlaveOf(t.Context(), "NO", "ONE").Err())
	value, err := n.Do(t.Context(), "SET", "k", "v", "NX")
	if must(t, err); value != "OK" {
		t.Errorf("a master again: %v", value)
	}
	value, err = n.Do(t.Context(), "SET", "k", "w", "NX")
	if must(t, err); value != nil {
		t.Errorf("a key that exists: %v", value)
	}
}

func TestRefusedHello(t *testing.T) {
	wrong := errors.New("wrong server")
	_, n := one(t, Config{Hello: func(context.Context, *Node, *redis.Conn) error { return wrong }})
	for range 5 {
		if _, err := n.Do(t.Context(), "PING"); !errors.Is(err, wrong) || !Unsent(err) {
			t.Errorf("%v", err)
		}
	}
}

func TestKilledAndRestarted(t *testing.T) {
	server, n := one(t, Config{Timeout: 200 * time.Millisecond})
	_, err := n.Do(t.Context(), "PING")
	must(t, err)
	must(t, server.Kill())
	eventually(t, func() error {
		_, err := n.Do(t.Context(), "PING")
		if n.Down() == nil {
			return fmt.Errorf("the breaker is closed: %w", err)
		}
		return nil
	})
	if _, err := n.Do(t.Context(), "PING"); !errors.Is(err, ErrDown) {
		t.Errorf("%v", err)
	}
	later := make(chan error, 1)
	n.Later(&Op{Args: []any{"SET", "later", "1"}, To: ReceiverFunc(func(_ *Op, _ any, err error) { later <- err })})
	must(t, server.Restart())
	must(t, <-later)
	if got, err := n.Do(t.Context(), "GET", "later"); got != "1" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestDeferredCommandsAreBounded(t *testing.T) {
	n := over(t, dead(t), Config{})
	var dropped atomic.Int32
	for range maxDeferred + 7 {
		n.Later(&Op{Args: []any{"PING"}, To: ReceiverFunc(func(_ *Op, _ any, err error) {
			if errors.Is(err, ErrDropped) {
				dropped.Add(1)
			}
		})})
	}
	if d := dropped.Load(); d != 7 {
		t.Errorf("%d dropped, want the 7 oldest", d)
	}
}

func TestExhaustedPoolIsNotTheNodesFault(t *testing.T) {
	server := testenv.Redis(t, 1)[0]
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1,
		PoolSize: 1, MaxActiveConns: 1, PoolTimeout: 20 * time.Millisecond})
	defer client.Close()
	keep := client.Conn()
	must(t, keep.Ping(t.Context()).Err())
	n := over(t, client, Config{})
	for range failuresToOpen + 2 {
		if _, err := n.Do(t.Context(), "PING"); !errors.Is(err, ErrOverloaded) || errors.Is(err, ErrDown) {
			t.Errorf("%v, want ErrOverloaded", err)
		}
	}
	if n.Down() != nil {
		t.Errorf("the breaker is open: %v", n.Down())
	}
	must(t, keep.Close())
	eventually(t, func() error { _, err := n.Do(t.Context(), "PING"); return err })
}

func TestClose(t *testing.T) {
	server := testenv.Redis(t, 1)[0]
	set, err := NewSet([]redis.UniversalClient{server.Client()}, Config{})
	must(t, err)
	n := set.Nodes()[0]
	_, err = n.Do(t.Context(), "PING")
	must(t, err)
	n.Later(&Op{Args: []any{"PING"}, To: ReceiverFunc(func(_ *Op, _ any, err error) {
		if err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("what waited: %v", err)
		}
	})})
	set.Close()
	set.Close()
	if _, err := n.Do(t.Context(), "PING"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	must(t, server.Client().Ping(t.Context()).Err())
}

func dead(t *testing.T) redis.UniversalClient {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestSetReportsEverything(t *testing.T) {
	bad := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer bad.Close()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:2"}, ContextTimeoutEnabled: true})
	defer cluster.Close()
	_, err := NewSet([]redis.UniversalClient{bad, nil, dead(t), cluster}, Config{
		Timeout: -1, Queue: -1, OpenFor: -1,
		Hello: func(context.Context, *Node, *redis.Conn) error { return nil },
	})
	for _, want := range []string{"ContextTimeoutEnabled", "MaxRetries", "node 1: the client is nil", "nodes 0 and 2",
		"NodeTimeout", "Queue", "OpenFor", "ClusterClient cannot be watched"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %q", err, want)
		}
	}
	if _, err := NewSet(nil, Config{}); err == nil || !strings.Contains(err.Error(), "no Redis nodes") {
		t.Errorf("no clients: %v", err)
	}
	set, err := NewSet([]redis.UniversalClient{cluster}, Config{})
	must(t, err)
	set.Close()
}

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []observe.Event
}

func (r *recorder) Observe(e observe.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func eventsOf[E observe.Event](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []E
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			list = append(list, e)
		}
	}
	return list
}

// A begun command goes when its caller waits, or with whatever is sent next; a
// set that is closed answers it as well.
func TestBegin(t *testing.T) {
	_, n := one(t, Config{})
	first := n.Begin("set", "k", "1")
	if value, err := n.Do(t.Context(), "get", "k"); value != "1" || err != nil {
		t.Errorf("the command sent next: %v, %v; the begun one goes before it", value, err)
	}
	if value, err := first.Wait(t.Context()); value != "OK" || err != nil {
		t.Errorf("the begun command: %v, %v", value, err)
	}
	if value, err := n.Begin("get", "k").Wait(t.Context()); value != "1" || err != nil {
		t.Errorf("alone: %v, %v", value, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Begin("get", "k").Wait(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits: %v", err)
	}
	last := n.Begin("get", "k")
	n.close()
	<-n.done
	if _, err := last.Wait(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}
