// Package work makes the operations that the benchmark measures out of a
// contender, and checks while measuring that the contender keeps its promise:
// a fast lock that grants twice is not worth a figure.
package work

import (
	"fmt"
	"sync/atomic"

	"github.com/redfence/redfence/cmd/bench/internal/measure"
)

// A Job is an operation together with its own check.
type Job struct {
	Op    measure.Op
	Check *Check
}

// A Check counts how often a promise was tested and how often it was broken.
// It is safe for concurrent use.
type Check struct {
	made, broken atomic.Int64
	first        atomic.Pointer[string]
}

// kept counts one test of a promise that was kept.
func (c *Check) kept() { c.made.Add(1) }

// broke counts one that was not.
func (c *Check) broke(format string, args ...any) {
	c.made.Add(1)
	c.broken.Add(1)
	text := fmt.Sprintf(format, args...)
	c.first.CompareAndSwap(nil, &text)
}

// Expect counts one test of the promise that a response belongs to its id.
func (c *Check) Expect(own bool, id string) {
	if own {
		c.kept()
		return
	}
	c.broke("%s got another's response", id)
}

// Made returns how often the promise was tested.
func (c *Check) Made() int64 { return c.made.Load() }

// Broken returns how often it was broken.
func (c *Check) Broken() int64 { return c.broken.Load() }

// Err returns nil when the promise was tested and kept.
func (c *Check) Err() error {
	if first := c.first.Load(); first != nil {
		return fmt.Errorf("%d of %d checks failed, the first: %s", c.Broken(), c.Made(), *first)
	}
	if c.Made() == 0 {
		return fmt.Errorf("nothing was checked: the round was too short")
	}
	return nil
}

// checkEvery is how many operations of a caller share one check: often enough
// to test each round, seldom enough to cost half a percent.
const checkEvery = 200

// due reports whether this operation is to be checked. Callers take turns, so
// that the checks of many callers do not come all at once.
func due(caller, n int) bool { return (n+caller*37)%checkEvery == 0 }
