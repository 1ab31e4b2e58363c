// Package nemesis decides which faults happen when, from a seed, and makes
// them happen.
package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// A Step is one action at its time.
type Step struct {
	At time.Duration `json:"at"`
	history.Action
}

// A Target is what faults are done to.
type Target interface {
	// Do does an action and says how it was seen to have happened.
	Do(ctx context.Context, a history.Action) (proof string, err error)
}

// Run does the steps in order, each at its time after the present one, and
// tells each fault, in the clock's time, once it has happened. A step that
// comes late moves those after it, so that an outage lasts as long as planned.
// It ends with the
// schedule or at the first fault that could not be done: the run is worth
// nothing then.
func Run(ctx context.Context, target Target, steps []Step, clock func() time.Duration, tell func(history.Fault)) error {
	began := clock()
	for _, step := range steps {
		if err := waitUntil(ctx, began+step.At, clock); err != nil {
			return err
		}
		if late := clock() - began - step.At; late > tooLate {
			began += late
		}
		fault := history.Fault{Action: step.Action, At: clock()}
		var err error
		fault.Proof, err = target.Do(ctx, step.Action)
		fault.Done = clock()
		if errors.Is(err, history.ErrMissed) {
			fault.Missed, fault.Proof, err = true, err.Error(), nil
		}
		if err != nil {
			fault.Err = err.Error()
		}
		tell(fault)
		if err != nil {
			return fmt.Errorf("chaos: %s: %w", step.Action, err)
		}
	}
	return nil
}

// tooLate is more than a busy machine is late by: an action before took its
// time. Less is left to even out, or a long schedule would grow longer with
// each step.
const tooLate = 500 * time.Millisecond

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
