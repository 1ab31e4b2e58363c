package redfence_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/lock"
)

// An engine is a lock.Locker as well. Its locks are kept in the ledger: they
// survive an outage of Redis. Holding a lock is a context that ends with it.
func ExampleEngine_Acquire() {
	engine, stop := start(redfence.Config{})
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	lease, err := engine.Acquire(ctx, "nightly-job", lock.WithTTL(5*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lease.Name(), "held:", lease.Context().Err() == nil, "fenced:", lease.Fence() > 0)
	fmt.Println("released:", lease.Release(ctx))
	fmt.Println("held:", lease.Context().Err() == nil)
	// Output:
	// nightly-job held: true fenced: true
	// released: <nil>
	// held: false
}

// TryAcquire does not wait for a holder.
func ExampleEngine_TryAcquire() {
	engine, stop := start(redfence.Config{Owner: "host-1"})
	defer stop()
	ctx := context.Background()
	lease, err := engine.TryAcquire(ctx, "nightly-job")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	_, err = engine.TryAcquire(ctx, "nightly-job")
	var failed *lock.Error
	if errors.As(err, &failed) {
		fmt.Println("taken:", errors.Is(err, lock.ErrTaken), "by", failed.Holder)
	}
	// Output:
	// taken: true by host-1
}
