package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// clockSlack is how far a node's clock may be from ours before doctor says so.
// Safety does not rest on it; a jump shows that the clock is not kept.
const clockSlack = time.Second

// slowAnswer is a round trip that eats most of the node deadline.
const slowAnswer = 50 * time.Millisecond

// nodeState is what one node says of itself.
type nodeState struct {
	addr     string
	err      error
	info     map[string]string
	policy   string
	clock    time.Duration // ours minus the node's
	answered time.Duration // time of one round trip
}

// askNodes asks all nodes at once.
func askNodes(ctx context.Context, clients nodes) []nodeState {
	ctx, cancel := context.WithTimeout(ctx, contactTimeout)
	defer cancel()
	states := make([]nodeState, len(clients))
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() { states[i] = askNode(ctx, client) })
	}
	all.Wait()
	return states
}

func askNode(ctx context.Context, client *redis.Client) nodeState {
	s := nodeState{addr: client.Options().Addr}
	if s.err = client.Ping(ctx).Err(); s.err != nil { // connects
		return s
	}
	sent := time.Now()
	theirs, err := client.Time(ctx).Result()
	if err != nil {
		s.err = err
		return s
	}
	s.answered = time.Since(sent)
	s.clock = sent.Add(s.answered / 2).Sub(theirs)
	s.info = fields(client.Info(ctx).Val())
	// CONFIG may be forbidden; INFO tells the policy too.
	s.policy = s.info["maxmemory_policy"]
	return s
}

// fields reads what INFO returned.
func fields(info string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// checkNodes reports what is wrong with single nodes and with them together.
func checkNodes(ctx context.Context, clients nodes) []finding {
	states := askNodes(ctx, clients)
	var found []finding
	down := 0
	runs := map[string]string{}
	for _, s := range states {
		where := "redis " + s.addr
		if s.err != nil {
			down++
			found = append(found, finding{false, where, "does not answer: " + s.err.Error(), "start it, or correct --redis"})
			continue
		}
		found = append(found, s.check(where)...)
		run := s.info["run_id"]
		if other, twice := runs[run]; twice && run != "" {
			found = append(found, finding{true, where, "is the same server as " + other + " and would vote twice", "name each server once"})
		}
		runs[run] = s.addr
	}
	if quorum := len(states)/2 + 1; len(states)-down < quorum {
		found = append(found, finding{true, "redis", fmt.Sprintf("%d of %d nodes answer, a quorum needs %d: requests take the fallback route", len(states)-down, len(states), quorum), "bring nodes back; the ledger serves meanwhile"})
	}
	return found
}

func (s nodeState) check(where string) []finding {
	var found []finding
	add := func(bad, fatal bool, what, next string) {
		if bad {
			found = append(found, finding{fatal, where, what, next})
		}
	}
	add(s.info["role"] == "slave", true, "is a replica: it takes no writes", "name the master, or make it one: REPLICAOF NO ONE")
	add(s.policy != "noeviction", true, fmt.Sprintf("maxmemory-policy is %q: a lock could be evicted", s.policy), "CONFIG SET maxmemory-policy noeviction, and in redis.conf")
	add(s.info["cluster_enabled"] == "1", false, "is part of a Redis Cluster: it counts as one node and has no fence of its own for stand-alone locks", "use independent masters")
	replicas, _ := strconv.Atoi(s.info["connected_slaves"])
	add(replicas > 0, false, fmt.Sprintf("has %d replicas: a promoted one may have missed a lock", replicas), "use no replicas, or min-replicas-to-write 1")
	add(s.info["aof_enabled"] == "0", false, "keeps no append-only file: after a restart the cached responses are gone", "CONFIG SET appendonly yes, and in redis.conf")
	major, _ := strconv.Atoi(strings.SplitN(s.info["redis_version"], ".", 2)[0])
	add(major > 0 && major < 6, false, "is Redis "+s.info["redis_version"]+", older than what Redfence is tested with", "use 7 or newer")
	add(s.clock.Abs() > clockSlack, false, fmt.Sprintf("its clock is %v away from this machine's", s.clock.Round(time.Millisecond)), "keep clocks with NTP")
	add(s.answered > slowAnswer, false, fmt.Sprintf("one round trip takes %v", s.answered.Round(time.Millisecond)), "place it nearer, or raise the node deadline")
	return found
}
