package work

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
)

// LockCycles locks and unlocks names that nobody else uses. Now and then the
// rival, another instance, tries a held name, which must be refused.
func LockCycles(locker, rival contend.Locker, prefix string) Job {
	check := new(Check)
	return Job{Check: check, Op: func(ctx context.Context, caller, n int) error {
		name := fmt.Sprintf("%s/%d/%d", prefix, caller, n)
		unlock, err := locker.Lock(ctx, name)
		if err != nil {
			return err
		}
		if due(caller, n) {
			if err := challenge(ctx, rival, name, check); err != nil {
				return err
			}
		}
		return unlock(ctx)
	}}
}

// challenge tries a name that another instance holds.
func challenge(ctx context.Context, rival contend.Locker, name string, check *Check) error {
	unlock, ok, err := rival.TryLock(ctx, name)
	if err != nil {
		return nil // refused for another reason: nothing was granted
	}
	if ok {
		check.broke("%s was granted while it was held", name)
		return unlock(ctx)
	}
	check.kept()
	return nil
}

// Contended lets all callers lock the same name. The holder is the only one
// who may be inside. Shares counts the turns of each caller.
func Contended(lockers []contend.Locker, name string, callers int) (job Job, shares []atomic.Int64) {
	check := new(Check)
	shares = make([]atomic.Int64, callers)
	var inside atomic.Int64
	job = Job{Check: check, Op: func(ctx context.Context, caller, _ int) error {
		unlock, err := lockers[caller%len(lockers)].Lock(ctx, name)
		if err != nil {
			return err
		}
		if inside.Add(1) == 1 {
			check.kept()
		} else {
			check.broke("two callers held %s at once", name)
		}
		shares[caller].Add(1)
		inside.Add(-1)
		return unlock(ctx)
	}}
	return job, shares
}

// Fairness is Jain's index of the callers' turns: 1 when all had the same
// number, 1/callers when one had them all. 0: nobody had any.
func Fairness(shares []atomic.Int64) float64 {
	var sum, squares float64
	for i := range shares {
		n := float64(shares[i].Load())
		sum += n
		squares += n * n
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}
