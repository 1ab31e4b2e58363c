package nemesis

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// A Topology is what there is to break.
type Topology struct{ Nodes, Instances int }

// Times of a schedule. An outage lasts long enough to be seen by the load, and
// the calm after it is long enough for the breakers to close again.
const (
	firstCalm            = 2 * time.Second
	minOutage, maxOutage = 2 * time.Second, 4 * time.Second
	minCalm, maxCalm     = 3 * time.Second, 5 * time.Second
	lastCalm             = time.Second
)

// chanceOfTwo is how likely an episode of a mixed preset has another beside it,
// of another part of the cluster.
const chanceOfTwo = 0.3

// mixed is how many kinds of episodes make a mixture.
const mixed = 12

// A Plan says which schedule is wanted.
type Plan struct {
	// Preset draws episodes by its name, or Only from those named.
	Preset string
	Only   []string
	// Without are faults that are not possible here.
	Without []string
	// Keep are the numbers of the episodes that stay, from 0; nil: all. What
	// is left moves up.
	Keep     []int
	Seed     uint64
	Duration time.Duration
	Topology
}

// An Episode is what is broken and mended between two calms.
type Episode struct {
	Name  string
	Steps []Step
	// Calm after it.
	Calm time.Duration
}

// Steps returns the steps of the plan, in order.
func (p Plan) Steps() ([]Step, error) {
	all, err := p.Episodes()
	var steps []Step
	for _, e := range all {
		steps = append(steps, e.Steps...)
	}
	return steps, err
}

// Episodes plans one after the other, with calm between them. The same plan
// gives the same episodes. Everything is mended when they end.
func (p Plan) Episodes() ([]Episode, error) {
	names, next, err := p.named()
	if err != nil {
		return nil, err
	}
	s := &script{random: rand.New(rand.NewPCG(p.Seed, 0x6e656d65736973)), Topology: p.Topology}
	var drawn []Episode
	for at := firstCalm; ; {
		if next == "" {
			next = names[s.random.IntN(len(names))]
		}
		e, end := s.cycle(next, names, at)
		if end > p.Duration-lastCalm && len(drawn) > 0 {
			return p.kept(drawn), nil
		}
		e.Calm = s.between(minCalm, maxCalm)
		drawn = append(drawn, e)
		at, next = end+e.Calm, ""
	}
}

// kept drops episodes and moves the others up.
func (p Plan) kept(drawn []Episode) []Episode {
	if p.Keep == nil {
		return drawn
	}
	var left []Episode
	gone := time.Duration(0)
	for i, e := range drawn {
		if !slices.Contains(p.Keep, i) {
			if i+1 < len(drawn) {
				gone += drawn[i+1].Steps[0].At - e.Steps[0].At
			}
			continue
		}
		for j := range e.Steps {
			e.Steps[j].At -= gone
		}
		left = append(left, e)
	}
	return left
}

// script is a schedule in the making.
type script struct {
	Topology
	random *rand.Rand
	steps  []Step
}

// cycle plans an episode, and now and then a second one of another part
// beside it.
func (s *script) cycle(name string, all []string, at time.Duration) (Episode, time.Duration) {
	e := episodes[name]
	steps, end := e.plan(s, at)
	drawn := Episode{Name: name, Steps: steps}
	if len(all) < mixed || s.random.Float64() >= chanceOfTwo {
		return drawn, end
	}
	beside := all[s.random.IntN(len(all))]
	other := episodes[beside]
	if other.part == e.part || other.needs == e.part || e.needs == other.part {
		return drawn, end
	}
	more, otherEnd := other.plan(s, at+s.between(0, time.Second))
	drawn.Name += "+" + beside
	drawn.Steps = append(steps, more...)
	slices.SortStableFunc(drawn.Steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return drawn, max(end, otherEnd)
}

func (s *script) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(s.random.Int64N(int64(high-low)))
}

// some returns some of n, at least one, in random order.
func (s *script) some(n int) []int { return s.random.Perm(n)[:1+s.random.IntN(n)] }
