package observe_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/observe"
)

// collector keeps what it is told and takes its time for it.
type collector struct {
	takes time.Duration

	mu     sync.Mutex
	events []observe.Event
}

func (c *collector) Observe(e observe.Event) {
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// split returns the fences of the claims and the counts of the dropped events.
func (c *collector) split() (fences, dropped []int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.events {
		switch e := e.(type) {
		case observe.ClaimLost:
			fences = append(fences, e.Fence)
		case observe.EventsDropped:
			dropped = append(dropped, e.Count)
		}
	}
	return fences, dropped
}

func event(n int) observe.Event { return observe.ClaimLost{Fence: int64(n)} }

func closeNow(t *testing.T, f *observe.Fanout) {
	t.Helper()
	if err := f.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestFanoutKeepsOrderAndReachesAll(t *testing.T) {
	a, b := &collector{}, &collector{}
	f := observe.NewFanout(0, a, nil, b)
	for n := range 1000 {
		f.Observe(event(n))
	}
	closeNow(t, f)
	var want []int64
	for n := range 1000 {
		want = append(want, int64(n))
	}
	for _, c := range []*collector{a, b} {
		if got, _ := c.split(); !cmp.Equal(want, got) {
			t.Error(cmp.Diff(want, got))
		}
	}
	if f.Dropped() != 0 {
		t.Errorf("dropped %d", f.Dropped())
	}
}

func TestFanoutNeverBlocksAndTellsWhatItDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &collector{takes: time.Minute}
		f := observe.NewFanout(2, slow)
		began := time.Now()
		f.Observe(event(0))
		synctest.Wait() // the observer has it
		for n := 1; n <= 10; n++ {
			f.Observe(event(n))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("blocked for %v", took)
		}
		if f.Dropped() != 8 {
			t.Errorf("dropped %d, want 8", f.Dropped())
		}
		closeNow(t, f)
		fences, dropped := slow.split()
		if diff := cmp.Diff([]int64{0, 1, 2}, fences); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]int64{8}, dropped); diff != "" {
			t.Error(diff)
		}
	})
}

// An observer that is always behind hears of dropped events once a second and
// not after each event.
func TestFanoutTellsDroppedAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &collector{takes: 10 * time.Millisecond}
		f := observe.NewFanout(4, slow)
		for n := range 10_000 { // 10 s at ten times of what it can do
			f.Observe(event(n))
			time.Sleep(time.Millisecond)
		}
		closeNow(t, f)
		_, dropped := slow.split()
		if len(dropped) < 9 || len(dropped) > 12 {
			t.Errorf("told %d times in about 10 s", len(dropped))
		}
		var sum int64
		for _, n := range dropped {
			sum += n
		}
		if sum != f.Dropped() {
			t.Errorf("told of %d, dropped %d", sum, f.Dropped())
		}
	})
}

func TestFanoutCloseGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := &collector{takes: time.Hour}
		f := observe.NewFanout(8, hangs)
		f.Observe(event(1))
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if err := f.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		closeNow(t, f) // again, with patience: it goes on where it was
		if got, _ := hangs.split(); len(got) != 1 {
			t.Errorf("delivered %v", got)
		}
	})
}

func TestFanoutDropsAfterClose(t *testing.T) {
	c := &collector{}
	f := observe.NewFanout(1, c)
	closeNow(t, f)
	f.Observe(event(1))
	if got, _ := c.split(); len(got) != 0 || f.Dropped() != 1 {
		t.Errorf("delivered %v, dropped %d", got, f.Dropped())
	}
}

// Every event that was sent is delivered or counted, also those that race with
// Close.
func TestFanoutLosesNothingUnseen(t *testing.T) {
	var delivered atomic.Int64
	f := observe.NewFanout(16, observe.Func(func(e observe.Event) {
		if _, ok := e.(observe.ClaimLost); ok {
			delivered.Add(1)
		}
	}))
	const senders, each = 8, 2000
	var all sync.WaitGroup
	for range senders {
		all.Go(func() {
			for n := range each {
				f.Observe(event(n))
			}
		})
	}
	for delivered.Load() < 100 { // let them get going: the senders bound this
		if f.Dropped()+delivered.Load() >= senders*each {
			break
		}
	}
	closeNow(t, f)
	all.Wait()
	if got := delivered.Load() + f.Dropped(); got != senders*each {
		t.Errorf("%d of %d events accounted for", got, senders*each)
	}
}

func TestTeeReachesAllInOrder(t *testing.T) {
	var got []string
	note := func(name string) observe.Observer {
		return observe.Func(func(observe.Event) { got = append(got, name) })
	}
	observe.Tee(note("a"), nil, note("b")).Observe(event(1))
	if diff := cmp.Diff([]string{"a", "b"}, got); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkFanout(b *testing.B) {
	f := observe.NewFanout(0, observe.Discard)
	e := event(1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			f.Observe(e)
		}
	})
	if err := f.Close(context.Background()); err != nil {
		b.Error(err)
	}
}
