package nemesis

import (
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// An episode breaks something and mends it.
type episode struct {
	// part is what it touches; two episodes of one part never overlap.
	part string
	// needs is a part that must be left alone meanwhile. Empty: none.
	needs string
	// plan returns the steps from a time on, in order, and when all is mended.
	plan func(s *script, at time.Duration) ([]Step, time.Duration)
}

// The parts of a cluster.
const (
	redisNodes = "nodes"
	redisLinks = "redis links"
	ledger     = "ledger" // Postgres and the links to it
	instances  = "instances"
)

// Gaps between the steps of one episode.
const (
	minGap, maxGap = 100 * time.Millisecond, 700 * time.Millisecond
	quickGap       = 10 * time.Millisecond
	chanceOfQuick  = 0.3
)

// Node after node is killed, now and then nearly at once, and they come back
// empty, one by one.
var (
	killNodes    = episode{part: redisNodes, plan: func(s *script, at time.Duration) ([]Step, time.Duration) { return s.killNodes(s.some(s.Nodes), at) }}
	killAllNodes = episode{part: redisNodes, plan: func(s *script, at time.Duration) ([]Step, time.Duration) {
		return s.killNodes(s.random.Perm(s.Nodes), at)
	}}
	// All at once, and back at once.
	cycleNodes = episode{part: redisNodes, plan: func(s *script, at time.Duration) ([]Step, time.Duration) {
		steps, at := s.each(s.random.Perm(s.Nodes), at, 0, 0, node(history.KillNode))
		back, at := s.each(s.random.Perm(s.Nodes), at+cycleOutage, 0, 0, node(history.RestartNode))
		return append(steps, back...), at
	}}
)

// cycleOutage is longer than the second that the fail-over may take.
const cycleOutage = 2500 * time.Millisecond

func (s *script) killNodes(victims []int, at time.Duration) ([]Step, time.Duration) {
	low, high := minGap, maxGap
	if s.random.Float64() < chanceOfQuick {
		low, high = 0, quickGap
	}
	steps, at := s.each(victims, at, low, high, node(history.KillNode))
	s.random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	back, at := s.each(victims, at+s.between(minOutage, maxOutage), minGap, maxGap, node(history.RestartNode))
	return append(steps, back...), at
}

// The other episodes of nodes.
var (
	pauseNodes  = spell(redisNodes, nodesOf, node(history.PauseNode), node(history.ResumeNode))
	stallNodes  = touch(redisNodes, nodesOf, node(history.StallNode))
	flushNodes  = touch(redisNodes, nodesOf, node(history.FlushNode))
	lapseLocks  = touch(redisNodes, nodesOf, node(history.LapseLocks))
	evictNodes  = touch(redisNodes, nodesOf, node(history.EvictNode))
	rebootNodes = touch(redisNodes, nodesOf, node(history.RebootNode))
	// A majority comes and goes every 50 ms.
	flapNodes = flap(redisNodes, func(s *script) []int { return s.random.Perm(s.Nodes)[:s.Nodes/2+1] },
		node(history.PauseNode), node(history.ResumeNode))
)

// Episodes of the links between instances and stores.
var (
	cutRedis         = spell(redisLinks, instancesOf, instance(history.CutRedis), instance(history.HealRedis))
	holdReplies      = spell(redisLinks, instancesOf, instance(history.HoldReplies), instance(history.HealRedis))
	holdRequests     = spell(redisLinks, instancesOf, instance(history.HoldRequests), instance(history.HealRedis))
	slowRedis        = spell(redisLinks, instancesOf, instance(history.SlowRedis), instance(history.HealRedis))
	slowNodes        = spell(redisLinks, nodesOf, node(history.SlowNode), node(history.QuickenNode))
	flapLinks        = flap(redisLinks, oneInstance, instance(history.CutRedis), instance(history.HealRedis))
	cutPostgres      = spell(ledger, instancesOf, instance(history.CutPostgres), instance(history.HealPostgres))
	holdPostgres     = spell(ledger, instancesOf, instance(history.HoldPostgresReplies), instance(history.HealPostgres))
	dropReplies      = drops(ledger, history.DropReply)
	dropRedisReplies = drops(redisLinks, history.DropRedisReply)
)

// drops loses a reply of an instance now and then.
func drops(part, kind string) episode {
	return episode{part: part, needs: instances, plan: func(s *script, at time.Duration) ([]Step, time.Duration) {
		var steps []Step
		for range 10 {
			steps = append(steps, Step{at, history.Action{Kind: kind, Instance: s.random.IntN(s.Instances)}})
			at += s.between(minGap, maxGap)
		}
		return steps, at
	}}
}

// Episodes of Postgres.
var (
	killPostgres  = spell(ledger, postgres, node(history.KillPostgres), node(history.StartPostgres))
	pausePostgres = spell(ledger, postgres, node(history.StopPostgres), node(history.WakePostgres))
	refuse        = spell(ledger, postgres, node(history.RefuseInstances), node(history.AdmitInstances))
	lockTable     = touch(ledger, postgres, node(history.LockTable))
	lockRows      = touch(ledger, postgres, node(history.LockRows))
	fillDisk      = spell(ledger, postgres, node(history.FillDisk), node(history.FreeDisk))
)

// Episodes of instances. One is left alone, so that there is somebody to ask.
// An instance starts only where the ledger can be reached.
var (
	killInstance  = starts(spell(instances, oneInstance, instance(history.KillInstance), instance(history.StartInstance)))
	changeNodes   = starts(spell(instances, oneInstance, instance(history.SplitNodes), instance(history.JoinNodes)))
	pauseInstance = spell(instances, oneInstance, instance(history.StopInstance), instance(history.WakeInstance))
	rollInstances = starts(episode{part: instances, plan: func(s *script, at time.Duration) ([]Step, time.Duration) {
		var steps []Step
		for i := range s.Instances {
			steps = append(steps, Step{at, history.Action{Kind: history.DrainInstance, Instance: i}})
			at += s.between(minGap, maxGap)
			steps = append(steps, Step{at, history.Action{Kind: history.StartInstance, Instance: i}})
			at += s.between(minGap, maxGap)
		}
		return steps, at
	}})
)

func starts(e episode) episode {
	e.needs = ledger
	return e
}

// on is an action on one of several.
type on func(i int) history.Action

func node(kind string) on {
	return func(i int) history.Action { return history.Action{Kind: kind, Node: i} }
}

func instance(kind string) on {
	return func(i int) history.Action { return history.Action{Kind: kind, Instance: i} }
}

func nodesOf(s *script) []int     { return s.some(s.Nodes) }
func instancesOf(s *script) []int { return s.some(s.Instances) }
func oneInstance(s *script) []int { return []int{s.random.IntN(s.Instances)} }
func postgres(*script) []int      { return []int{0} }

// spell breaks some, one after the other, and mends them after a while.
func spell(part string, choose func(*script) []int, broken, mended on) episode {
	return episode{part: part, plan: func(s *script, at time.Duration) ([]Step, time.Duration) {
		chosen := choose(s)
		steps, at := s.each(chosen, at, minGap, maxGap, broken)
		back, at := s.each(chosen, at+s.between(minOutage, maxOutage), minGap, maxGap, mended)
		return append(steps, back...), at
	}}
}

// touch does something that mends itself to some.
func touch(part string, choose func(*script) []int, do on) episode {
	return episode{part: part, plan: func(s *script, at time.Duration) ([]Step, time.Duration) {
		return s.each(choose(s), at, 0, maxGap, do)
	}}
}

// flap breaks and mends some every 50 ms for a while.
func flap(part string, choose func(*script) []int, broken, mended on) episode {
	const period = 50 * time.Millisecond
	return episode{part: part, plan: func(s *script, at time.Duration) ([]Step, time.Duration) {
		chosen := choose(s)
		var steps []Step
		for end := at + s.between(minOutage, maxOutage); at < end; {
			for _, do := range []on{broken, mended} {
				more, _ := s.each(chosen, at, 0, 0, do)
				steps = append(steps, more...)
				at += period
			}
		}
		return steps, at
	}}
}

// each does an action to each of several, with gaps between.
func (s *script) each(chosen []int, at, low, high time.Duration, do on) ([]Step, time.Duration) {
	var steps []Step
	for _, i := range chosen {
		steps = append(steps, Step{at, do(i)})
		at += s.between(low, high)
	}
	return steps, at
}
