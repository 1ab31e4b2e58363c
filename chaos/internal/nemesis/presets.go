package nemesis

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/redfence/redfence/chaos/internal/history"
)

// episodes by name.
var episodes = map[string]episode{
	"kill-nodes": killNodes, "kill-all-nodes": killAllNodes, "cycle-nodes": cycleNodes, "pause-nodes": pauseNodes,
	"stall-nodes": stallNodes, "flush-nodes": flushNodes, "lapse-locks": lapseLocks, "evict-nodes": evictNodes,
	"reboot-nodes": rebootNodes, "flap-nodes": flapNodes, "slow-nodes": slowNodes,
	"cut-redis": cutRedis, "hold-redis-replies": holdReplies, "hold-redis-requests": holdRequests, "slow-redis": slowRedis,
	"flap-redis": flapLinks, "drop-redis-replies": dropRedisReplies,
	"cut-postgres": cutPostgres, "hold-postgres-replies": holdPostgres, "drop-postgres-replies": dropReplies,
	"kill-postgres": killPostgres, "pause-postgres": pausePostgres, "refuse-postgres": refuse,
	"lock-table": lockTable, "lock-rows": lockRows, "fill-disk": fillDisk,
	"kill-instance": killInstance, "pause-instance": pauseInstance, "roll-instances": rollInstances, "change-nodes": changeNodes,
}

// presets are the names of the episodes that each draws from; of one that
// stands twice twice as often.
var presets = map[string][]string{
	"quick":      {"kill-nodes", "kill-nodes", "kill-all-nodes", "kill-all-nodes", "kill-all-nodes"},
	"all-down":   {"kill-all-nodes"},
	"cycles":     {"cycle-nodes"},
	"asymmetric": {"cut-redis", "hold-redis-replies", "hold-redis-requests", "slow-redis", "slow-nodes", "cut-postgres", "hold-postgres-replies", "drop-postgres-replies", "drop-redis-replies", "flap-redis"},
	"ledger":     {"kill-postgres", "pause-postgres", "cut-postgres", "hold-postgres-replies", "drop-postgres-replies", "refuse-postgres", "lock-table", "lock-rows", "fill-disk"},
	"pause":      {"pause-nodes", "stall-nodes", "pause-instance"},
	"flap":       {"flap-nodes", "flap-redis"},
	"standard":   everything(),
	"soak":       everything(),
}

func everything() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(episodes)), func(name string) bool { return name == "cycle-nodes" })
}

// first is the episode that a preset begins with, where it is not any.
var first = map[string]string{"quick": "kill-all-nodes", "standard": "kill-all-nodes", "soak": "kill-all-nodes"}

// Presets returns the names of the presets.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Episodes returns the names of the episodes.
func Episodes() []string { return slices.Sorted(maps.Keys(episodes)) }

// Impossible returns the episodes that need an action which cannot be done.
func Impossible(t Topology, can func(history.Action) bool) (names []string) {
	for _, name := range Episodes() {
		s := &script{random: rand.New(rand.NewPCG(1, 1)), Topology: t}
		steps, _ := episodes[name].plan(s, 0)
		if slices.ContainsFunc(steps, func(step Step) bool { return !can(step.Action) }) {
			names = append(names, name)
		}
	}
	return names
}

// KillsAll reports whether a plan is sure to have all nodes down at once.
func (p Plan) KillsAll() bool {
	if len(p.Only) > 0 {
		return false
	}
	return p.Preset == "all-down" || p.Preset == "cycles" || first[p.Preset] != ""
}

// named returns the episodes that a plan draws from, and the name of the one
// that comes first.
func (p Plan) named() (names []string, begin string, err error) {
	names, ok := presets[p.Preset]
	if !ok {
		return nil, "", fmt.Errorf("chaos: no preset %q; there are %s", p.Preset, strings.Join(Presets(), ", "))
	}
	if len(p.Only) == 0 {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(p.Without, name) })
		if len(names) == 0 {
			return nil, "", fmt.Errorf("chaos: no fault of preset %s is possible here; not possible: %s", p.Preset, strings.Join(p.Without, ", "))
		}
		return names, first[p.Preset], nil
	}
	for _, name := range p.Only {
		if _, ok := episodes[name]; !ok {
			return nil, "", fmt.Errorf("chaos: no fault %q; there are %s", name, strings.Join(Episodes(), ", "))
		}
		if slices.Contains(p.Without, name) {
			return nil, "", fmt.Errorf("chaos: %s is not possible here", name)
		}
	}
	return p.Only, "", nil
}
