package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
)

// A Finding is one thing about a deployment that endangers locks.
type Finding struct {
	// Index is the node's place among the clients; -1: the deployment.
	Index int
	// Node is the node's address.
	Node string
	// Problem says what was found, Fix what to do about it: one line each.
	Problem string
	Fix     string
}

// String returns the finding in one line.
func (f Finding) String() string {
	if f.Index < 0 {
		return f.Problem + "; " + f.Fix
	}
	return fmt.Sprintf("node %d (%s): %s; %s", f.Index, f.Node, f.Problem, f.Fix)
}

// Check looks at every node and returns what endangers locks: client options,
// nodes that do not answer, a node that is listed twice under two names, an
// eviction policy that may drop locks, replicas that may be promoted without
// them. None means that nothing was found. It only reads, and what it may not
// read (ACL) is a finding as well.
func Check(ctx context.Context, clients []redis.UniversalClient) []Finding {
	var findings []Finding
	if err := node.CheckClients(clients, true); err != nil {
		findings = append(findings, Finding{Index: -1, Problem: err.Error(), Fix: "make the clients with lock.Dial"})
	}
	if n := len(clients); n > 0 && n%2 == 0 {
		findings = append(findings, Finding{Index: -1, Problem: fmt.Sprintf("%d nodes: an even number", n), Fix: "add one or leave one out"})
	}
	infos := make([]map[string]string, len(clients))
	lists := make([][]Finding, len(clients))
	var all sync.WaitGroup
	for i, client := range clients {
		if client != nil {
			all.Go(func() { infos[i], lists[i] = examine(ctx, i, client) })
		}
	}
	all.Wait()
	for _, list := range lists {
		findings = append(findings, list...)
	}
	return append(findings, sameServer(infos)...)
}

// sameServer finds nodes that are one server under several names.
func sameServer(infos []map[string]string) []Finding {
	var findings []Finding
	seen := map[string]int{}
	for i, info := range infos {
		run := info["run_id"]
		first, twice := seen[run]
		if run != "" && twice {
			findings = append(findings, Finding{Index: -1,
				Problem: fmt.Sprintf("nodes %d and %d are the same server, which then votes twice", first, i),
				Fix:     "list every server once"})
		}
		if !twice {
			seen[run] = i
		}
	}
	return findings
}

func examine(ctx context.Context, i int, client redis.UniversalClient) (map[string]string, []Finding) {
	addr := node.Address(client)
	info, err := readInfo(ctx, client)
	if err != nil {
		return nil, []Finding{{Index: i, Node: addr, Problem: "INFO: " + err.Error(),
			Fix: "see that it runs, that it can be reached and that its user may call INFO"}}
	}
	findings := judgeInfo(info)
	if node.FailsOver(client) {
		findings = append(findings, Finding{
			Problem: "it fails over to a replica, which may not know the latest locks and fences",
			Fix: "fine where the ledger arbitrates; for the stand-alone lock set min-replicas-to-write 1 and " +
				"do not rely on fences, or use masters without replicas"})
	}
	for j := range findings {
		findings[j].Index, findings[j].Node = i, addr
	}
	return info, findings
}

func readInfo(ctx context.Context, client redis.Cmdable) (map[string]string, error) {
	text, err := client.Info(ctx, "everything").Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	if len(info) == 0 {
		return nil, errors.New("empty answer")
	}
	return info, nil
}

// judgeInfo reads what INFO says.
func judgeInfo(info map[string]string) []Finding {
	var findings []Finding
	add := func(problem, fix string) { findings = append(findings, Finding{Problem: problem, Fix: fix}) }
	if p := info["maxmemory_policy"]; info["maxmemory"] != "0" && info["maxmemory"] != "" && p != "noeviction" {
		add(fmt.Sprintf("maxmemory-policy %s: locks may be evicted while they are held", p),
			"CONFIG SET maxmemory-policy noeviction, and the same in redis.conf")
	}
	if role := info["role"]; role != "" && role != "master" {
		add("it is a "+role+", not a master", "use independent masters")
	}
	if n := info["connected_slaves"]; n != "" && n != "0" {
		add(n+" replicas: one that is promoted may not know the latest locks",
			"use masters without replicas, or min-replicas-to-write 1 and no fences")
	}
	if info["loading"] == "1" {
		add("it is still loading its data", "wait")
	}
	return findings
}
