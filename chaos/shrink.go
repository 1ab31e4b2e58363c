package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/redfence/redfence/chaos/internal/check"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/report"
)

// shrink looks for a shorter schedule that fails in the same way, and returns
// the report of the shortest. A schedule that passed was perhaps only lucky:
// the seed does not decide how threads interleave.
func (r *runCommand) shrink(ctx context.Context, setup history.Setup, failed report.Report, dir string, show *progress) (report.Report, error) {
	class := failed.Result.Class()
	if class != check.Safety && class != check.Liveness {
		show.say("nothing to shrink: the verdict is %s", failed.Verdict)
		return failed, nil
	}
	episodes, err := plan(setup).Episodes()
	if err != nil {
		return failed, err
	}
	keep := setup.Keep
	if keep == nil {
		for i := range episodes {
			keep = append(keep, i)
		}
	}
	shortest, number := failed, 0
	keep, err = shorter(keep, r.Tries, func(try []int) (bool, error) {
		number++
		setup.Keep = try
		show.say("\nshrink %d of at most %d: episodes %v", number, r.Tries, try)
		got, err := run(ctx, setup, r.Rate, filepath.Join(dir, fmt.Sprintf("shrink-%d", number)), show)
		if err != nil {
			return false, err
		}
		show.say("shrink %d: %s", number, got.Verdict)
		if got.Result.Class() != class {
			return false, nil
		}
		shortest = got
		return true, nil
	})
	show.say("\nshrunk from %d episodes to %d, %v, in %d tries (one that passed was perhaps only lucky)", len(episodes), len(keep), keep, number)
	return shortest, err
}

// shorter drops parts of a list, halves first and single items last, as long
// as the rest still fails, in at most so many tries.
func shorter(items []int, tries int, fails func([]int) (bool, error)) ([]int, error) {
	for size := (len(items) + 1) / 2; size > 0 && len(items) > 1; {
		dropped := false
		for from := 0; from < len(items) && len(items) > 1; {
			if tries--; tries < 0 {
				return items, nil
			}
			rest := slices.Concat(items[:from], items[min(from+size, len(items)):])
			if len(rest) == 0 {
				break
			}
			failed, err := fails(rest)
			if err != nil {
				return items, err
			}
			if failed {
				items, dropped = rest, true
			} else {
				from += size
			}
		}
		if size > 1 {
			size = min(size, len(items)+1) / 2
		} else if !dropped {
			return items, nil
		}
	}
	return items, nil
}
