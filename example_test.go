package redfence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

// startRedis stands in for three independent Redis servers, so that the
// examples run anywhere.
func startRedis() (clients []redis.UniversalClient, stop func()) {
	var urls []string
	var servers []*miniredis.Miniredis
	for range 3 {
		s := miniredis.NewMiniRedis()
		if err := s.Start(); err != nil {
			panic(err)
		}
		servers, urls = append(servers, s), append(urls, "redis://"+s.Addr())
	}
	clients, err := lock.Dial(urls...)
	if err != nil {
		panic(err)
	}
	return clients, func() {
		for i, s := range servers {
			clients[i].Close()
			s.Close()
		}
	}
}

// start returns an engine for an example, with Redis nodes of its own and a
// ledger in memory unless the configuration brings them.
func start(cfg redfence.Config) (engine *redfence.Engine, stop func()) {
	stopRedis := func() {}
	if cfg.Nodes == nil {
		cfg.Nodes, stopRedis = startRedis()
	}
	if cfg.Ledger == nil {
		cfg.Ledger = fallback.NewMemory()
	}
	engine, err := redfence.New(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	return engine, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := engine.Close(ctx); err != nil {
			fmt.Println(err)
		}
		stopRedis()
	}
}

// charge is the effect that must not happen twice.
func charge(context.Context, *redfence.Execution) (redfence.Response, error) {
	fmt.Println("the card is charged")
	return redfence.Response{Status: 201, Body: []byte("receipt 17")}, nil
}

// An engine needs Redis nodes and a ledger. In production the nodes are three
// or five servers and the ledger is Postgres: fallback.Open.
func Example() {
	ctx := context.Background()
	nodes, stop := startRedis()
	defer stop()
	engine, err := redfence.New(ctx, redfence.Config{Nodes: nodes, Ledger: fallback.NewMemory()})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer engine.Close(ctx)

	request := redfence.Request{Scope: "acme", ID: "order-1"}
	for range 3 { // the client retries, or a load balancer does
		res, err := engine.Do(ctx, request, charge)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%v: %d %s\n", res.Outcome, res.Response.Status, res.Response.Body)
	}
	// Output:
	// the card is charged
	// executed: 201 receipt 17
	// replayed: 201 receipt 17
	// replayed: 201 receipt 17
}

// Callers of one process that ask at the same time share the response of the
// one that runs.
func ExampleEngine_Do() {
	engine, stop := start(redfence.Config{})
	defer stop()
	var all sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for range 50 {
		all.Go(func() {
			res, err := engine.Do(context.Background(), redfence.Request{ID: "order-1"}, charge)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Println(err)
			}
			outcomes[string(res.Response.Body)]++
			if res.Outcome == redfence.Executed {
				outcomes["executed"]++
			}
		})
	}
	all.Wait()
	fmt.Println(outcomes["executed"], "executed,", outcomes["receipt 17"], "got the receipt")
	// Output:
	// the card is charged
	// 1 executed, 50 got the receipt
}

// With every Redis node down, requests take the fallback route: the ledger
// alone arbitrates, as it does on the primary route.
func ExampleEngine_Do_redisDown() {
	nobodyListens, err := lock.Dial("redis://127.0.0.1:1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nobodyListens[0].Close()
	engine, stop := start(redfence.Config{Nodes: nobodyListens})
	defer stop()
	for range 2 {
		res, err := engine.Do(context.Background(), redfence.Request{ID: "order-1"}, charge)
		fmt.Println(res.Outcome, err)
	}
	// Output:
	// the card is charged
	// executed <nil>
	// replayed <nil>
}

// A key belongs to one request. Give a digest of what was asked for, and
// another request under the same key is refused.
func ExampleFingerprint() {
	engine, stop := start(redfence.Config{})
	defer stop()
	ask := func(body string) {
		request := redfence.Request{ID: "order-1", Fingerprint: redfence.Fingerprint{Version: 1, Sum: []byte(body)}}
		_, err := engine.Do(context.Background(), request, charge)
		fmt.Println(err)
	}
	ask("10 EUR")
	ask("9000 EUR")
	// Output:
	// the card is charged
	// <nil>
	// redfence: do "order-1": key used with another request (use a new key for a new request)
}

// Do stores the value of a handler as JSON and gives it to duplicates.
func ExampleDo() {
	type receipt struct {
		Number int `json:"number"`
	}
	engine, stop := start(redfence.Config{})
	defer stop()
	for range 2 {
		r, err := redfence.Do(context.Background(), engine, redfence.Request{ID: "order-1"},
			func(context.Context, *redfence.Execution) (receipt, error) {
				fmt.Println("the card is charged")
				return receipt{Number: 17}, nil
			})
		fmt.Println(r.Number, err)
	}
	// Output:
	// the card is charged
	// 17 <nil>
	// 17 <nil>
}

// A handler that knows that nothing has happened says so: the next request
// runs it again.
func ExampleUndone() {
	engine, stop := start(redfence.Config{})
	defer stop()
	tries := 0
	for range 2 {
		res, err := engine.Do(context.Background(), redfence.Request{ID: "order-1"},
			func(ctx context.Context, ex *redfence.Execution) (redfence.Response, error) {
				if tries++; tries == 1 {
					return redfence.Response{}, redfence.Undone(errors.New("no connection to the bank"))
				}
				return charge(ctx, ex)
			})
		fmt.Printf("%q %v\n", res.Response.Body, err)
	}
	// Output:
	// "" no connection to the bank
	// the card is charged
	// "receipt 17" <nil>
}

// An error that is the answer is stored like one.
func ExampleStore() {
	engine, stop := start(redfence.Config{})
	defer stop()
	for range 2 {
		res, err := engine.Do(context.Background(), redfence.Request{ID: "order-1"},
			func(context.Context, *redfence.Execution) (redfence.Response, error) {
				fmt.Println("the bank is asked")
				return redfence.Response{}, redfence.Store(errors.New("card refused"))
			})
		var stored *redfence.StoredError
		fmt.Println(res.Outcome, err, errors.As(err, &stored))
	}
	// Output:
	// the bank is asked
	// executed card refused false
	// replayed card refused true
}

// Under Retry a later request takes the work over once the lease of the owner
// has lapsed. The owner, should it still live, can no longer record anything.
func ExamplePolicy_retry() {
	nodes, stopRedis := startRedis()
	defer stopRedis()
	cfg := redfence.Config{Nodes: nodes, Ledger: fallback.NewMemory()}
	first, stopFirst := start(cfg)
	defer stopFirst()
	second, stopSecond := start(cfg)
	defer stopSecond()
	request := redfence.Request{ID: "order-1", Policy: &redfence.Policy{
		OnAbandoned: redfence.Retry, Lease: 500 * time.Millisecond, MaxProcessing: 500 * time.Millisecond,
	}}

	begun, takenOver, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		res, _ := first.Do(context.Background(), request, func(context.Context, *redfence.Execution) (redfence.Response, error) {
			close(begun)
			<-takenOver // it hangs, and looks at no context
			return redfence.Response{Body: []byte("too late")}, nil
		})
		fmt.Println("the first is durable:", res.Durable)
	}()
	<-begun
	res, err := second.Do(context.Background(), request, func(_ context.Context, ex *redfence.Execution) (redfence.Response, error) {
		return redfence.Response{Body: fmt.Append(nil, "attempt ", ex.Attempt())}, nil
	})
	fmt.Printf("the second: %s, durable: %v, %v\n", res.Response.Body, res.Durable, err)
	close(takenOver)
	<-over
	// Output:
	// the second: attempt 2, durable: true, <nil>
	// the first is durable: false
}

// With NoWait a duplicate of a key in flight is told so at once.
func ExamplePolicy_noWait() {
	engine, stop := start(redfence.Config{})
	defer stop()
	request := redfence.Request{ID: "order-1", Policy: &redfence.Policy{Wait: redfence.NoWait}}
	_, err := engine.Do(context.Background(), request, func(context.Context, *redfence.Execution) (redfence.Response, error) {
		_, err := engine.Do(context.Background(), request, charge)
		fmt.Println(err)
		return redfence.Response{}, nil
	})
	fmt.Println(err)
	// Output:
	// redfence: do "order-1": in progress (send the same request again later)
	// <nil>
}

// What happened to a key whose handler failed half-way is for somebody to
// decide who can find out. Until then nothing runs.
func ExampleEngine_Resolve() {
	engine, stop := start(redfence.Config{})
	defer stop()
	ctx, request := context.Background(), redfence.Request{Scope: "acme", ID: "order-1"}
	_, err := engine.Do(ctx, request, func(context.Context, *redfence.Execution) (redfence.Response, error) {
		return redfence.Response{}, errors.New("connection lost while the bank was thinking")
	})
	fmt.Println(err)
	_, err = engine.Do(ctx, request, charge)
	fmt.Println("unknown:", errors.Is(err, redfence.ErrUnknownOutcome))

	record, err := engine.Inspect(ctx, request.Key())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(record.State, "-", record.Reason)
	err = engine.Resolve(ctx, request.Key(), redfence.Resolution{
		Fence:    record.Fence, // refused if anything has changed since
		Response: &redfence.Response{Status: 201, Body: []byte("receipt 17")},
		Who:      "maria", Why: "the bank's statement shows the charge",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := engine.Do(ctx, request, charge)
	fmt.Printf("%v %s %v\n", res.Outcome, res.Response.Body, err)
	// Output:
	// connection lost while the bank was thinking
	// unknown: true
	// unknown - the handler failed: connection lost while the bank was thinking
	// replayed receipt 17 <nil>
}

// An error of the engine says what was asked, why it failed and what to do.
func ExampleError() {
	engine, stop := start(redfence.Config{})
	defer stop()
	_, err := engine.Do(context.Background(), redfence.Request{}, charge)
	var e *redfence.Error
	if errors.As(err, &e) {
		fmt.Println(e.Op, "|", e.Kind, "|", e.Err)
	}
	fmt.Println(errors.Is(err, redfence.ErrInvalid))
	// Output:
	// do | invalid request | Request.ID is empty
	// true
}

// A Config says everything that is wrong with it at once.
func ExampleConfig_Validate() {
	err := redfence.Config{
		Ledger: fallback.NewMemory(),
		Policy: redfence.Policy{Lease: time.Millisecond, Retention: -time.Hour},
	}.Validate()
	fmt.Println(err)
	// Output:
	// Nodes: none; give an odd number of independent Redis masters, usually 5 (lock.Dial makes clients); Policy.Lease is 1ms; at least 100ms; Policy.Retention is -1h0m0s; at least 100ms, or Forever
}

// An observer sees what the engine does. Put a fan-out in front of slow ones;
// package redfenceprom has one for Prometheus.
func ExampleConfig_observer() {
	events := observe.NewFanout(0, observe.Func(func(e observe.Event) {
		if done, ok := e.(observe.DoFinished); ok {
			fmt.Println(done.Name(), done.Route, done.Outcome)
		}
	}))
	engine, stop := start(redfence.Config{Observer: events})
	for range 2 {
		if _, err := engine.Do(context.Background(), redfence.Request{ID: "order-1"}, charge); err != nil {
			fmt.Println(err)
		}
	}
	stop()
	if err := events.Close(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Unordered output:
	// the card is charged
	// do_finished primary executed
	// do_finished primary replayed
}
