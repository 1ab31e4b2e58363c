package fallback

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func digestN(n byte) Digest { return Digest{n} }

// newLane returns a lane whose batches the test runs.
func newLane(run func([]*ticket[int, int])) (*lane[int, int], *group) {
	g := &group{}
	return &lane[int, int]{run: run, group: g, maxBatch: 100, maxQueue: 100}, g
}

// TestLaneBatches: the first goes at once and alone; those who come meanwhile
// are the next batch, sorted.
func TestLaneBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		hold := make(chan struct{})
		l, g := newLane(func(b []*ticket[int, int]) {
			sizes = append(sizes, len(b))
			for i, x := range b {
				if i > 0 && bytes.Compare(b[i-1].digest[:], x.digest[:]) >= 0 {
					t.Error("the batch is not sorted")
				}
			}
			<-hold
			for _, x := range b {
				x.settle(x.ask*2, nil)
			}
		})
		var wg sync.WaitGroup
		for n := range 50 {
			wg.Go(func() {
				if got, err := l.call(t.Context(), digestN(byte(97*n)), n); err != nil || got != 2*n {
					t.Errorf("%d, %v", got, err)
				}
			})
			synctest.Wait()
		}
		close(hold)
		wg.Wait()
		g.close()
		if len(sizes) != 2 || sizes[0] != 1 || sizes[1] != 49 {
			t.Fatalf("batches of %v", sizes)
		}
	})
}

// TestLaneKeepsKeysApart: no key is in a batch twice, and each call is answered
// by its own.
func TestLaneKeepsKeysApart(t *testing.T) {
	l, g := newLane(func(b []*ticket[int, int]) {
		seen := make(map[Digest]bool)
		for _, x := range b {
			if seen[x.digest] {
				t.Error("a key is in a batch twice")
			}
			seen[x.digest] = true
			x.settle(x.ask, nil)
		}
	})
	var wg sync.WaitGroup
	for n := range 400 {
		wg.Go(func() {
			got, err := l.call(context.WithoutCancel(t.Context()), digestN(byte(n%7)), n)
			if errors.Is(err, ErrOverloaded) {
				return
			}
			if err != nil || got != n {
				t.Errorf("%d, %v", got, err)
			}
		})
	}
	wg.Wait()
	g.close()
}

// TestLaneGoesBesideASlowBatch: a batch that takes long does not keep later
// callers, and only so many go at a time.
func TestLaneGoesBesideASlowBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		under := 0
		l, g := newLane(func(b []*ticket[int, int]) {
			under++
			<-stuck
			for _, x := range b {
				x.settle(0, nil)
			}
		})
		for n := range 10 {
			if _, err := l.enter(t.Context(), digestN(byte(n)), n); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if want := min(n+1, maxBeside); under != want {
				t.Fatalf("%d batches under way after %d slow ones, want %d", under, n, want)
			}
			time.Sleep(2 * slowBatch) // the bubble's clock: no time passes
		}
		close(stuck)
		g.close()
	})
}

// TestLaneShares: reads of one key that wait share a ticket; one that is under
// way is not shared, since the row may have changed since.
func TestLaneShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		asked := 0
		l, g := newLane(func(b []*ticket[int, int]) {
			asked += len(b)
			<-hold
			for _, x := range b {
				x.settle(asked, nil)
			}
		})
		l.share = true
		first, err := l.enter(t.Context(), digestN(1), 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var later []*ticket[int, int]
		for range 5 {
			next, err := l.enter(t.Context(), digestN(1), 0)
			if err != nil {
				t.Fatal(err)
			}
			later = append(later, next)
		}
		for _, x := range later {
			if x == first || x != later[0] {
				t.Fatal("what waits is not shared, or what is under way is")
			}
		}
		close(hold)
		g.close()
		if asked != 2 {
			t.Fatalf("asked %d times", asked)
		}
	})
}

// TestLaneBounds: batches by number and by bytes, the queue, the closed group.
func TestLaneBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		hold := make(chan struct{})
		l, g := newLane(func(b []*ticket[int, int]) {
			sizes = append(sizes, len(b))
			<-hold
			for _, x := range b {
				x.settle(0, nil)
			}
		})
		l.maxBatch, l.maxQueue = 3, 8
		l.size = func(bytes *int) int { return *bytes }
		enter := func(d byte, size int) error {
			_, err := l.enter(t.Context(), digestN(d), size)
			synctest.Wait()
			return err
		}
		for n := range 9 {
			size := 1
			if n == 4 {
				size = maxBatchBytes + 1
			}
			if err := enter(byte(n), size); err != nil {
				t.Fatal(err)
			}
		}
		if err := enter(100, 1); !errors.Is(err, ErrOverloaded) {
			t.Fatalf("beyond the queue: %v", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.enter(cancelled, digestN(101), 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("a context that is done: %v", err)
		}
		l.maxQueue = 100
		if err := enter(50, maxQueueBytes); !errors.Is(err, ErrOverloaded) {
			t.Fatalf("beyond the queue's bytes: %v", err)
		}
		close(hold)
		g.close()
		if l.bytes != 0 {
			t.Fatalf("%d bytes wait in an empty queue", l.bytes)
		}
		if want := []int{1, 3, 1, 3, 1}; len(sizes) != len(want) {
			// 0 alone; 1 2 3; 4 is large and ends its batch; 5 6 7; 8
			t.Fatalf("batches of %v, want %v", sizes, want)
		}
		if err := enter(102, 1); !errors.Is(err, ErrClosed) {
			t.Fatalf("after close: %v", err)
		}
	})
}

// TestLaneCallerLeaves: a caller that gives up does not take its statement
// along.
func TestLaneCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		ran := false
		l, g := newLane(func(b []*ticket[int, int]) {
			<-hold
			ran = true
			b[0].settle(0, nil)
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.call(ctx, digestN(1), 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		close(hold)
		g.close()
		if !ran {
			t.Fatal("the statement was dropped")
		}
	})
}
