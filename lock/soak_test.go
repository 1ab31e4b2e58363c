package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redfence/redfence/internal/testenv"
)

// TestSoak runs a load on few names while nodes are killed, stopped and
// restarted empty at random. porcupine then judges, per name, whether there is
// an order of acquires and ends, each inside its interval, in which no two
// leases overlap and every fence is larger than the one before. The seed is
// printed; REDFENCE_LONG=1 makes it ten minutes.
func TestSoak(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &soak{t: t, servers: deploy(t, 5), random: rand.New(rand.NewPCG(seed, 0)), last: map[string]int64{}}
	for range 3 { // three processes, as far as locks can tell
		s.lockers = append(s.lockers, locker(t, clientsOf(s.servers), Config{TTL: time.Second, NodeTimeout: 100 * time.Millisecond}))
	}
	deadline := time.Now().Add(choose(10*time.Minute, 8*time.Second))
	var goroutines, heap uint64
	for epoch := 0; time.Now().Before(deadline) && !t.Failed(); epoch++ {
		s.epoch(choose(15*time.Second, 4*time.Second))
		g, h := footprint()
		if epoch == 1 {
			goroutines, heap = g, h
		}
		if epoch > 1 && (g > goroutines+30 || h > 2*heap+(32<<20)) {
			t.Errorf("epoch %d: %d goroutines and %d MiB, %d and %d after the second", epoch, g, h>>20, goroutines, heap>>20)
		}
	}
	s.heal()
	eventually(t, 10*time.Second, func() error { return noKeys(s.servers, guardedPrefix) })
	t.Logf("%d leases, %d lost, %d faults", s.leases, s.lost, s.faults)
	if s.leases == 0 {
		t.Error("nothing was ever acquired")
	}
}

func footprint() (goroutines, heap uint64) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return uint64(runtime.NumGoroutine()), m.HeapAlloc
}

type soak struct {
	t       *testing.T
	servers []*testenv.RedisServer
	lockers []*Redlock
	random  *rand.Rand
	last    map[string]int64 // the largest fence of the epochs before

	leases, lost, faults int

	mu      sync.Mutex
	history []porcupine.Operation
}

// soakStep is an acquire or, with a fence of 0, the end of a lease.
type soakStep struct {
	name  string
	id    int
	fence int64
}

type soakState struct {
	holder int // 0: nobody
	fence  int64
}

const soakNames = 6

func (s *soak) epoch(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	start := time.Now()
	var load sync.WaitGroup
	for worker := range 4 * len(s.lockers) {
		random := rand.New(rand.NewPCG(s.random.Uint64(), 1))
		load.Go(func() { s.work(ctx, start, worker, random) })
	}
	s.torment(ctx)
	load.Wait()
	s.judge()
	s.history = nil
}

// work acquires, holds and releases until ctx ends.
func (s *soak) work(ctx context.Context, start time.Time, worker int, random *rand.Rand) {
	r := s.lockers[worker%len(s.lockers)]
	for ctx.Err() == nil {
		name := fmt.Sprint("soak-", random.IntN(soakNames))
		called := time.Since(start)
		lease, err := r.Acquire(ctx, name)
		if err != nil {
			continue
		}
		got := time.Since(start)
		select {
		case <-lease.Done():
		case <-time.After(time.Duration(random.IntN(20)) * time.Millisecond):
		}
		end := time.Since(start)
		err = lease.Release(context.Background())
		// A lease that was lost ended with its validity at the latest.
		end = min(end, lease.ValidUntil().Sub(start))
		s.record(name, lease.Fence(), called, got, max(end, got), time.Since(start), errors.Is(err, ErrLost))
	}
}

func (s *soak) record(name string, fence int64, called, got, end, ended time.Duration, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases++
	if lost {
		s.lost++
	}
	id := s.leases
	s.history = append(s.history,
		porcupine.Operation{ClientId: id, Input: soakStep{name, id, fence}, Call: int64(called), Return: int64(got)},
		porcupine.Operation{ClientId: id, Input: soakStep{name, id, 0}, Call: int64(end), Return: int64(max(ended, end))})
}

// judge checks the history of an epoch and carries the fences on.
func (s *soak) judge() {
	model := porcupine.Model{
		Partition: byName,
		Init:      func() any { return soakState{} },
		Step: func(state, input, _ any) (bool, any) {
			now, step := state.(soakState), input.(soakStep)
			switch {
			case step.fence == 0:
				return now.holder == step.id, soakState{fence: now.fence}
			case now.holder != 0 || step.fence <= now.fence || step.fence <= s.last[step.name]:
				return false, now
			}
			return true, soakState{holder: step.id, fence: step.fence}
		},
		Equal: func(a, b any) bool { return a == b },
	}
	if result := porcupine.CheckOperationsTimeout(model, s.history, time.Minute); result != porcupine.Ok {
		s.t.Errorf("the history of %d steps is not that of a lock: %v", len(s.history), result)
	}
	for _, op := range s.history {
		step := op.Input.(soakStep)
		s.last[step.name] = max(s.last[step.name], step.fence)
	}
}

func byName(history []porcupine.Operation) [][]porcupine.Operation {
	parts := map[string][]porcupine.Operation{}
	for _, op := range history {
		name := op.Input.(soakStep).name
		parts[name] = append(parts[name], op)
	}
	var list [][]porcupine.Operation
	for _, part := range parts {
		list = append(list, part)
	}
	return list
}

// torment harms up to two nodes at a time, and now and then three, until ctx
// ends; then it heals them.
func (s *soak) torment(ctx context.Context) {
	defer s.heal()
	for sleep(ctx, time.Duration(100+s.random.IntN(300))*time.Millisecond) {
		s.faults++
		victims := s.random.Perm(len(s.servers))[:1+s.random.IntN(2)]
		if s.random.IntN(8) == 0 { // a majority: nobody can hold, nobody may be wrong
			victims = s.random.Perm(len(s.servers))[:3]
		}
		if s.random.IntN(2) == 0 && len(victims) < 3 && s.standing() >= len(s.servers)-1 {
			// No more than two without memory at a time: fences are
			// promised while a majority keeps it.
			victims = victims[:1]
			must(s.t, s.servers[victims[0]].Kill())
			sleep(ctx, time.Duration(s.random.IntN(500))*time.Millisecond)
			must(s.t, s.servers[victims[0]].Restart())
			continue
		}
		for _, v := range victims {
			must(s.t, s.servers[v].Pause())
		}
		sleep(ctx, time.Duration(s.random.IntN(1500))*time.Millisecond)
		for _, v := range victims {
			must(s.t, s.servers[v].Resume())
		}
	}
}

// sleep waits; false: ctx has ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// standing counts the nodes that vote.
func (s *soak) standing() int {
	n := 0
	for _, server := range s.servers {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		marker, err := server.Client().Get(ctx, markerKey).Result()
		info, infoErr := server.Client().Info(ctx, "server").Result()
		cancel()
		_, run, _ := strings.Cut(marker, " ")
		run, _, _ = strings.Cut(run, " ")
		if err == nil && infoErr == nil && strings.HasPrefix(marker, "ok ") && strings.Contains(info, "run_id:"+run) {
			n++
		}
	}
	return n
}

func (s *soak) heal() {
	for _, server := range s.servers {
		if server.Pid() == 0 {
			must(s.t, server.Restart())
		}
	}
}
