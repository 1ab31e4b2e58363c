// Package nemesis decides which faults happen when, from a seed, and makes
// them happen.
package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// A Step is one fault at its time.
type Step struct {
	At     time.Duration `json:"at"`
	Action string        `json:"action"`
	Node   int           `json:"node"`
}

// Cycle times. An outage of everything lasts long enough to be seen by the
// load, and the time between two outages is long enough for the breakers to
// close again.
const (
	firstCalm            = 2 * time.Second
	minGap, maxGap       = 100 * time.Millisecond, 700 * time.Millisecond
	quickGap             = 10 * time.Millisecond
	minOutage, maxOutage = 2 * time.Second, 4 * time.Second
	minCalm, maxCalm     = 3 * time.Second, 5 * time.Second
	lastCalm             = time.Second

	chanceOfTotalOutage  = 0.6
	chanceOfQuickKilling = 0.3
)

// Schedule plans kills and restarts: node after node is killed, now and then
// nearly at once, in the first cycle and in most others up to all of them;
// then they come back empty, one by one. The same seed, duration and number of
// nodes give the same schedule. Every node is up again when it ends.
func Schedule(seed uint64, duration time.Duration, nodes int) []Step {
	random := rand.New(rand.NewPCG(seed, 0x6e656d65736973))
	var steps []Step
	at := firstCalm
	for first := true; ; first = false {
		cycle, end := oneCycle(random, at, nodes, first)
		if end > duration-lastCalm && !first {
			return steps
		}
		steps = append(steps, cycle...)
		at = end + between(random, minCalm, maxCalm)
	}
}

func oneCycle(random *rand.Rand, at time.Duration, nodes int, total bool) ([]Step, time.Duration) {
	count := nodes
	if !total && random.Float64() >= chanceOfTotalOutage {
		count = 1 + random.IntN(nodes)
	}
	low, high := minGap, maxGap
	if random.Float64() < chanceOfQuickKilling {
		low, high = 0, quickGap
	}
	victims := random.Perm(nodes)[:count]
	var steps []Step
	for _, node := range victims {
		steps = append(steps, Step{At: at, Action: history.KillNode, Node: node})
		at += between(random, low, high)
	}
	at += between(random, minOutage, maxOutage)
	random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	for _, node := range victims {
		steps = append(steps, Step{At: at, Action: history.RestartNode, Node: node})
		at += between(random, minGap, maxGap)
	}
	return steps, at
}

func between(random *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(random.Int64N(int64(high-low)))
}

// A Target is what faults are done to.
type Target interface {
	KillNode(ctx context.Context, node int) (proof string, err error)
	RestartNode(ctx context.Context, node int) (proof string, err error)
}

// Run does the steps in order, each at its time after the present one, and
// tells each fault, in the clock's time, once it has happened. It ends with the
// schedule or at the first fault that could not be done: the run is worth
// nothing then.
func Run(ctx context.Context, target Target, steps []Step, clock func() time.Duration, tell func(history.Fault)) error {
	began := clock()
	for _, step := range steps {
		if err := waitUntil(ctx, began+step.At, clock); err != nil {
			return err
		}
		fault := history.Fault{At: clock(), Action: step.Action, Node: step.Node}
		var err error
		switch step.Action {
		case history.KillNode:
			fault.Proof, err = target.KillNode(ctx, step.Node)
		case history.RestartNode:
			fault.Proof, err = target.RestartNode(ctx, step.Node)
		default:
			err = fmt.Errorf("unknown action %q", step.Action)
		}
		fault.Done = clock()
		if err != nil {
			fault.Err = err.Error()
		}
		tell(fault)
		if err != nil {
			return fmt.Errorf("chaos: %s %d: %w", step.Action, step.Node, err)
		}
	}
	return nil
}

func waitUntil(ctx context.Context, at time.Duration, clock func() time.Duration) error {
	timer := time.NewTimer(at - clock())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
