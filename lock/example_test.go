package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redfence/redfence/lock"
)

// A lock over three nodes: its context ends when the lease ends.
func Example() {
	ctx := context.Background()
	clients, err := lock.Dial("redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := lock.New(ctx, clients, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	err = locker.Do(ctx, "nightly-report", func(ctx context.Context) error {
		// ctx ends when the lock is lost: pass it on.
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Init begins a deployment, once, from a set-up job: afterwards the nodes vote
// at once. MaxTTL must be what every locker uses.
func ExampleInit() {
	ctx := context.Background()
	clients, err := lock.Dial("redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379")
	if err != nil {
		log.Fatal(err)
	}
	if err := lock.Init(ctx, clients, lock.Config{MaxTTL: 30 * time.Second}); err != nil {
		log.Fatal(err) // it names the nodes, and why
	}
}

// Check finds what endangers locks; run it from a health check.
func ExampleCheck() {
	clients, err := lock.Dial("redis://10.0.0.1:6379")
	if err != nil {
		log.Fatal(err)
	}
	for _, finding := range lock.Check(context.Background(), clients) {
		fmt.Println(finding)
	}
}

// TryAcquire does not wait for a holder. The four outcomes are never mixed.
func ExampleRedlock_TryAcquire() {
	ctx := context.Background()
	locker := lock.NewMemory() // *lock.Redlock in earnest
	first, err := locker.TryAcquire(ctx, "job", lock.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	_, err = locker.TryAcquire(ctx, "job")
	switch {
	case errors.Is(err, lock.ErrTaken):
		fmt.Println("somebody else does it")
	case errors.Is(err, lock.ErrNoQuorum):
		fmt.Println("too few nodes answer")
	}
	if err := first.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: somebody else does it
}

// A fence lets the resource refuse a holder that has been overtaken.
func ExampleLease_Fence() {
	ctx := context.Background()
	locker := lock.NewMemory()
	var highest int64 // kept by the resource
	write := func(fence int64) {
		if fence < highest {
			fmt.Println("refused")
			return
		}
		highest = fence
		fmt.Println("written")
	}
	slow, err := locker.TryAcquire(ctx, "file")
	if err != nil {
		log.Fatal(err)
	}
	locker.Stop(slow) // its process freezes
	locker.Advance(time.Minute)
	fast, err := locker.TryAcquire(ctx, "file")
	if err != nil {
		log.Fatal(err)
	}
	write(fast.Fence())
	write(slow.Fence())
	// Output:
	// written
	// refused
}

// Several names at once, all or nothing, without deadlock.
func ExampleAcquireAll() {
	ctx := context.Background()
	locker := lock.NewMemory()
	lease, err := lock.AcquireAll(ctx, locker, []string{"account-7", "account-3"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Name())
	if err := lease.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: account-3,account-7
}

// One of many candidates leads; the number of its term is its fence.
func ExampleElection() {
	ctx := context.Background()
	election := lock.NewElection(lock.NewMemory(), "scheduler")
	term, err := election.Campaign(ctx) // waits until this candidate leads
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("leading, term", term.Number())
	if err := term.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	<-term.Done() // also when the term is lost
	fmt.Println(context.Cause(term.Context()))
	// Output:
	// leading, term 1
	// lease not held
}

// Code that uses a Locker is tested with a Memory: leases lapse when the test
// says so.
func ExampleNewMemory() {
	ctx := context.Background()
	locker := lock.NewMemory()
	lease, err := locker.TryAcquire(ctx, "job", lock.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	locker.Advance(time.Hour)
	fmt.Println("renewed:", lease.Context().Err() == nil)
	locker.Stop(lease) // the holder freezes
	locker.Advance(10 * time.Second)
	fmt.Println(context.Cause(lease.Context()))
	// Output:
	// renewed: true
	// lease lost
}

// Work that cannot stop at once gets a warning before its lease ends.
func ExampleWithWarn() {
	ctx := context.Background()
	locker := lock.NewMemory()
	warn := lock.WithWarn(2*time.Second, func(lease lock.Lease) { fmt.Println("hurry,", lease.Name()) })
	lease, err := locker.TryAcquire(ctx, "job", lock.WithTTL(10*time.Second), warn)
	if err != nil {
		log.Fatal(err)
	}
	locker.Stop(lease)
	locker.Advance(8 * time.Second)
	// Output: hurry, job
}

// Waiters of several processes in the order in which they came.
func ExampleWithFair() {
	ctx := context.Background()
	locker := lock.NewMemory()
	lease, err := locker.Acquire(ctx, "printer", lock.WithFair())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
}

// Inspect and Break are for people: who holds it, and take it away from a
// holder that is known to be gone.
func ExampleRedlock_Break() {
	ctx := context.Background()
	clients, err := lock.Dial("redis://10.0.0.1:6379,redis://10.0.0.2:6379,redis://10.0.0.3:6379")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := lock.New(ctx, clients, lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	state, err := locker.Inspect(ctx, "job")
	if err == nil && state.Held {
		fmt.Println(state.Owner, state.Fence, state.Remaining)
		_, err = locker.Break(ctx, "job", "alice: host is gone, ticket 4711")
	}
	if err != nil {
		log.Fatal(err)
	}
}
