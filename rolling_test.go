package redfence

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

// TestThreeNodesBecomeFiveUnderLoad: the instances of a service are closed and
// replaced one by one, those with three Redis nodes by others with five, while
// each key is called at all of them at once and again later. No key starts
// twice, no answer differs, and no call is lost: the instance that is being
// closed sends its callers to the next.
func TestThreeNodesBecomeFiveUnderLoad(t *testing.T) {
	five := newCluster(t)
	three := &cluster{nodes: five.nodes[:3], postgres: five.postgres}
	steady := func(cfg *Config) { cfg.Policy.Lease = 10 * time.Second } // nobody dies here
	f := &fleet{leaving: make(map[*instance]bool), answered: make(map[*instance]int)}
	for range 3 {
		f.now = append(f.now, three.start(t, steady))
	}
	stop := f.run(t)
	for slot := range f.now {
		f.replace(t, slot, func() *instance {
			return five.start(t, func(cfg *Config) {
				steady(cfg)
				if slot == 0 {
					cfg.OnOtherNodes = MoveToNodes
				}
			})
		})
	}
	stop()
	late := three.start(t, steady)
	must(t, f.do(t, late, "0-0"))
	f.check(t, late)

	recorded, err := late.ledger.NodeSet(t.Context())
	if want := node.SetName(f.now[0].cfg.Nodes); err != nil || recorded.Nodes != want {
		t.Errorf("recorded is %q, %v; want %q", recorded.Nodes, err, want)
	}
	if n := late.events.count(observe.NodeSetDiffers{}.Name()); n != 1 {
		t.Errorf("an instance that still has three nodes warns %d times", n)
	}
	for slot, in := range f.now {
		if n := in.events.count(observe.NodeSetDiffers{}.Name()); n != 0 {
			t.Errorf("instance %d has the recorded nodes and warns %d times", slot, n)
		}
		if in.Route() != observe.Primary {
			t.Errorf("instance %d has left the primary route: the test shows little", slot)
		}
	}
}

// A fleet is instances behind a load balancer, which the test replaces while
// they are called.
type fleet struct {
	load

	mu       sync.Mutex
	now      []*instance
	leaving  map[*instance]bool // told to close
	answered map[*instance]int
}

// run calls each key at every instance at once, then an older one again at
// one of them, until the function returned is called.
func (f *fleet) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	size := len(f.now)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				var atOnce sync.WaitGroup
				for slot := range size {
					atOnce.Go(func() { f.call(t, slot, fmt.Sprintf("%d-%d", i, n)) })
				}
				atOnce.Wait()
				f.call(t, n%size, fmt.Sprintf("%d-%d", i, n/2))
			}
		})
	}
	stop = func() { cancel(); group.Wait() }
	t.Cleanup(stop)
	return stop
}

// call asks one instance, and the next one if that is being closed.
func (f *fleet) call(t *testing.T, slot int, id string) {
	for ; ; slot++ {
		in := f.at(slot)
		err := f.do(t, in, id)
		f.mu.Lock()
		leaving := f.leaving[in]
		if err == nil {
			f.answered[in]++
		}
		f.mu.Unlock()
		if err == nil {
			return
		}
		if !errors.Is(err, ErrClosed) || !leaving {
			t.Errorf("key %s: %v", id, err)
			return
		}
	}
}

func (f *fleet) at(slot int) *instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now[slot%len(f.now)]
}

// replace closes an instance once it has answered calls, and puts another one
// in its place.
func (f *fleet) replace(t *testing.T, slot int, start func() *instance) {
	t.Helper()
	f.hasAnswered(t, slot)
	old := f.at(slot)
	f.mu.Lock()
	f.leaving[old] = true
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, old.Close(ctx))
	next := start()
	f.mu.Lock()
	f.now[slot] = next
	f.mu.Unlock()
	f.hasAnswered(t, slot)
}

func (f *fleet) hasAnswered(t *testing.T, slot int) {
	t.Helper()
	in := f.at(slot)
	eventually(t, fmt.Sprintf("instance %d has answered 50 calls", slot), func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.answered[in] >= 50
	})
}
