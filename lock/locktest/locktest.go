// Package locktest is the conformance suite for implementations of
// lock.Locker. Run it in a test of yours:
//
//	func TestConformance(t *testing.T) {
//		locktest.Run(t, locktest.Harness{Open: open, TTL: time.Second})
//	}
//
// It needs nothing of what one implementation has and another has not (nodes,
// rows, owners); what is optional is declared in the Harness.
package locktest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redfence/redfence/lock"
)

// Harness says how lockers are made and what they can do.
type Harness struct {
	// Open returns a locker of the deployment under test, the same one for
	// all calls with one t, as another process would have it. The locker ends
	// with t. Required.
	Open func(t testing.TB) lock.Locker
	// TTL is a validity that the lockers allow and that tests can wait for.
	// Defaults to 1 s.
	TTL time.Duration
	// Freeze keeps a lease from being renewed, as if its holder had frozen,
	// and returns once it has lapsed for everybody. nil: what happens to
	// lapsed leases is not tested.
	Freeze func(t testing.TB, locker lock.Locker, lease lock.Lease)
	// Pass lets d pass. Defaults to time.Sleep.
	Pass func(locker lock.Locker, d time.Duration)
	// Fences: leases carry fences.
	Fences bool
	// MaxHold: lock.WithMaxHold is honoured.
	MaxHold bool
	// HandOff bounds the time from a release to the waiter's lease. Defaults
	// to 2 s.
	HandOff time.Duration
}

var names atomic.Int64

// name returns a name that no other test uses.
func name(t testing.TB) string { return fmt.Sprintf("%s-%d", t.Name(), names.Add(1)) }

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	if h.TTL == 0 {
		h.TTL = time.Second
	}
	if h.Pass == nil {
		h.Pass = func(_ lock.Locker, d time.Duration) { time.Sleep(d) }
	}
	if h.HandOff == 0 {
		h.HandOff = 2 * time.Second
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, h Harness)
	}{
		{"acquire and release", testAcquireRelease},
		{"taken", testTaken},
		{"names are independent", testIndependent},
		{"bad input", testBadInput},
		{"dead context", testDeadContext},
		{"release twice", testReleaseTwice},
		{"release on a dead context", testReleaseDead},
		{"extend", testExtend},
		{"extend after release", testExtendReleased},
		{"lease outlives the acquire's context", testOutlives},
		{"lease keeps the context's values", testValues},
		{"renewed while held", testRenewed},
		{"waits for the release", testWaits},
		{"wait ends with the context", testWaitEnds},
		{"many waiters", testManyWaiters},
		{"do", testDo},
		{"do loses", testDoLoses},
		{"several names", testAll},
		{"several names, one taken", testAllTaken},
		{"election", testElection},
		{"fences grow", testFences},
		{"lapsed lease", testLapsed},
		{"lapsed lease of which a rival has become the holder", testRival},
		{"max hold", testMaxHold},
		{"mutual exclusion", testExclusion},
		{"concurrent use of one lease", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, h) })
	}
}

// patient is a context that ends before the test binary does.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// acquired fails the test unless the acquire succeeded.
func acquired(t testing.TB, lease lock.Lease, err error) lock.Lease {
	t.Helper()
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	if lease == nil {
		t.Fatal("acquire: neither lease nor error")
	}
	return lease
}

func release(t testing.TB, lease lock.Lease) {
	t.Helper()
	if err := lease.Release(patient(t)); err != nil {
		t.Fatalf("release: %v", err)
	}
}
