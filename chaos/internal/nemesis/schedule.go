package nemesis

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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

// presets are the episodes that each draws from.
var presets = map[string][]episode{
	"quick":      {killNodes, killNodes, killAllNodes, killAllNodes, killAllNodes},
	"all-down":   {killAllNodes},
	"asymmetric": {cutRedis, holdReplies, slowRedis, cutPostgres, dropReplies, flapLinks},
	"ledger":     {killPostgres, pausePostgres, cutPostgres, dropReplies},
	"pause":      {pauseNodes, stallNodes, pauseInstance},
	"flap":       {flapNodes, flapLinks},
	"standard":   everything,
	"soak":       everything,
}

var everything = []episode{
	killNodes, killAllNodes, pauseNodes, stallNodes, flushNodes, lapseLocks, flapNodes,
	cutRedis, holdReplies, slowRedis, cutPostgres, dropReplies, flapLinks,
	killPostgres, pausePostgres, killInstance, pauseInstance, rollInstances,
}

// first is the episode that a preset begins with, where it is not any.
var first = map[string]episode{"quick": killAllNodes, "standard": killAllNodes, "soak": killAllNodes}

// Presets returns the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// KillsAll reports whether a preset is sure to have all nodes down at once.
func KillsAll(preset string) bool { return preset == "all-down" || first[preset].plan != nil }

// chanceOfTwo is how likely an episode of a mixed preset has another beside it,
// of another part of the cluster.
const chanceOfTwo = 0.3

// Schedule plans the episodes of a preset, one after the other, with calm
// between them. The same arguments give the same schedule. Everything is mended
// when it ends.
func Schedule(preset string, seed uint64, duration time.Duration, topology Topology) ([]Step, error) {
	episodes, ok := presets[preset]
	if !ok {
		return nil, fmt.Errorf("chaos: no preset %q; there are %s", preset, strings.Join(Presets(), ", "))
	}
	s := &script{random: rand.New(rand.NewPCG(seed, 0x6e656d65736973)), Topology: topology}
	next, forced := first[preset]
	for at := firstCalm; ; {
		if !forced {
			next = episodes[s.random.IntN(len(episodes))]
		}
		steps, end := s.cycle(next, episodes, at)
		if end > duration-lastCalm && len(s.steps) > 0 {
			return s.steps, nil
		}
		s.steps = append(s.steps, steps...)
		at, forced = end+s.between(minCalm, maxCalm), false
	}
}

// script is a schedule in the making.
type script struct {
	Topology
	random *rand.Rand
	steps  []Step
}

// cycle plans an episode, and now and then a second one of another part
// beside it.
func (s *script) cycle(e episode, all []episode, at time.Duration) ([]Step, time.Duration) {
	steps, end := e.plan(s, at)
	if len(all) < len(everything) || s.random.Float64() >= chanceOfTwo {
		return steps, end
	}
	other := all[s.random.IntN(len(all))]
	if other.part == e.part {
		return steps, end
	}
	more, otherEnd := other.plan(s, at+s.between(0, time.Second))
	steps = append(steps, more...)
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps, max(end, otherEnd)
}

func (s *script) between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + time.Duration(s.random.Int64N(int64(high-low)))
}

// some returns some of n, at least one, in random order.
func (s *script) some(n int) []int { return s.random.Perm(n)[:1+s.random.IntN(n)] }
