package work

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// broken is a Locker that grants everything, and a Doer that runs always.
type broken struct{}

func (broken) Lock(context.Context, string) (contend.Unlock, error) {
	return func(context.Context) error { return nil }, nil
}

func (b broken) TryLock(ctx context.Context, name string) (contend.Unlock, bool, error) {
	unlock, err := b.Lock(ctx, name)
	return unlock, true, err
}

func (broken) Do(_ context.Context, _ string, work contend.Work) ([]byte, bool, error) {
	response, err := work()
	return response, false, err
}

func (broken) Close() error { return nil }

// honest is a Locker and a Doer in memory.
type honest struct {
	mu   sync.Mutex
	held map[string]bool
	done map[string][]byte
}

func newHonest() *honest { return &honest{held: map[string]bool{}, done: map[string][]byte{}} }

func (h *honest) Lock(ctx context.Context, name string) (contend.Unlock, error) {
	unlock, ok, _ := h.TryLock(ctx, name)
	if !ok {
		return nil, errors.New("taken")
	}
	return unlock, nil
}

func (h *honest) TryLock(_ context.Context, name string) (contend.Unlock, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held[name] {
		return nil, false, nil
	}
	h.held[name] = true
	return func(context.Context) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.held, name)
		return nil
	}, true, nil
}

func (h *honest) Do(_ context.Context, id string, work contend.Work) ([]byte, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if response, ok := h.done[id]; ok {
		return response, true, nil
	}
	response, err := work()
	h.done[id] = response
	return response, false, err
}

func (h *honest) Close() error { return nil }

func TestChecks(t *testing.T) {
	jobs := map[string]func(l contend.Locker, d contend.Doer) Job{
		"lock": func(l contend.Locker, _ contend.Doer) Job { return LockCycles(l, l, "p") },
		"fresh": func(_ contend.Locker, d contend.Doer) Job {
			return Fresh(d, "p", 100)
		},
		"replay": func(_ contend.Locker, d contend.Doer) Job {
			done, err := Complete(t.Context(), d, "p", 10, 100)
			if err != nil {
				t.Fatal(err)
			}
			return Replays(d, done)
		},
		"mixed": func(_ contend.Locker, d contend.Doer) Job { return Mixed(d, "p", 1, 100, 0.5) },
	}
	for name, job := range jobs {
		t.Run(name, func(t *testing.T) {
			h := newHonest()
			good := job(h, h)
			repeat(t, good)
			if err := good.Check.Err(); err != nil {
				t.Errorf("an honest contender: %v", err)
			}
			bad := job(broken{}, broken{})
			repeat(t, bad)
			if err := bad.Check.Err(); err == nil || !strings.Contains(err.Error(), "checks failed") {
				t.Errorf("a contender that grants twice: %v", err)
			}
		})
	}
}

func repeat(t *testing.T, job Job) {
	t.Helper()
	for n := range 2 * checkEvery {
		if err := job.Op(t.Context(), 0, n); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMixedKeepsTheShareOfDuplicates(t *testing.T) {
	h := newHonest()
	job := Mixed(h, "p", 2, 100, 0.8)
	const operations = 20_000
	for n := range operations {
		if err := job.Op(t.Context(), n%2, n/2); err != nil {
			t.Fatal(err)
		}
	}
	// Ten standard deviations to either side.
	if share := float64(len(h.done)) / operations; share < 0.172 || share > 0.228 {
		t.Errorf("%.3f of the operations were for new ids, want 0.2", share)
	}
	if job.Check.Made() != operations {
		t.Errorf("%d of %d operations were checked", job.Check.Made(), operations)
	}
}

func TestContendedSeesTwoHolders(t *testing.T) {
	job, _ := Contended([]contend.Locker{broken{}}, "n", 8)
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for n := 0; n < 1_000_000 && job.Check.Broken() == 0; n++ {
				if err := job.Op(t.Context(), caller, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	callers.Wait()
	if job.Check.Err() == nil {
		t.Error("8 callers held one name for a million turns and nobody noticed")
	}
}

func TestNothingCheckedIsNotAPass(t *testing.T) {
	if err := new(Check).Err(); err == nil {
		t.Error("a check that was never made passed")
	}
}

func TestFairness(t *testing.T) {
	tests := []struct {
		turns []int64
		want  float64
	}{
		{[]int64{0, 0}, 0},
		{[]int64{5, 5, 5, 5}, 1},
		{[]int64{8, 0, 0, 0}, 0.25},
	}
	for _, tt := range tests {
		shares := make([]atomic.Int64, len(tt.turns))
		for i, n := range tt.turns {
			shares[i].Store(n)
		}
		if got := Fairness(shares); got != tt.want {
			t.Errorf("Fairness(%v) = %v, want %v", tt.turns, got, tt.want)
		}
	}
}
