package node

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/problems"
)

// settings are the client options that safety depends on.
type settings struct {
	addr      string
	contexts  bool
	retries   int // 0: none
	readable  bool
	shareable bool // a placeholder address, which several clients may have
}

func settingsOf(client redis.UniversalClient) settings {
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		return settings{addr: o.Addr, contexts: o.ContextTimeoutEnabled, retries: o.MaxRetries,
			readable: true, shareable: o.Addr == failoverAddress}
	case *redis.ClusterClient:
		o := c.Options()
		return settings{addr: strings.Join(o.Addrs, ","), contexts: o.ContextTimeoutEnabled,
			retries: max(o.MaxRetries, 0), readable: true}
	}
	return settings{addr: fmt.Sprintf("%T", client), shareable: true}
}

// Address returns where a client connects to, for people.
func Address(client redis.UniversalClient) string { return settingsOf(client).addr }

// SetName is how the ledger records a set of nodes: their addresses, sorted.
func SetName(clients []redis.UniversalClient) string {
	addrs := make([]string, len(clients))
	for i, client := range clients {
		addrs[i] = Address(client)
	}
	slices.Sort(addrs)
	return strings.Join(addrs, " ")
}

// FailsOver says whether the server behind a client may be replaced by a
// replica of it: Sentinel or Cluster as one node.
func FailsOver(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().Addr == failoverAddress
	case *redis.ClusterClient:
		return true
	}
	return false
}

// CheckClients reports every problem of the clients in one error: none, a nil
// client, an address twice, options that safety depends on. Clients whose
// options cannot be read are refused unless trust is set.
func CheckClients(clients []redis.UniversalClient, trust bool) error {
	var list problems.List
	if len(clients) == 0 {
		list.Add("no Redis nodes; give an odd number of independent masters, usually 5")
	}
	seen := map[string]int{}
	for i, client := range clients {
		if isNil(client) {
			list.Add("node %d: the client is nil", i)
			continue
		}
		s := settingsOf(client)
		checkSettings(i, s, trust, &list)
		if first, twice := seen[s.addr]; twice && !s.shareable {
			list.Add("nodes %d and %d have the same address %s; a node listed twice would vote twice", first, i, s.addr)
		}
		seen[s.addr] = i
	}
	return list.Err()
}

func isNil(client redis.UniversalClient) bool {
	switch c := client.(type) {
	case nil:
		return true
	case *redis.Client:
		return c == nil
	case *redis.ClusterClient:
		return c == nil
	}
	return false
}

func checkSettings(i int, s settings, trust bool, list *problems.List) {
	if !s.readable {
		if !trust {
			list.Add("node %d: the options of a %s cannot be read; "+
				"make sure of ContextTimeoutEnabled: true and MaxRetries: -1 and set TrustClients", i, s.addr)
		}
		return
	}
	if !s.contexts {
		list.Add("node %d (%s): the client ignores the deadlines of contexts; set ContextTimeoutEnabled: true", i, s.addr)
	}
	if s.retries != 0 {
		list.Add("node %d (%s): the client retries by itself, %d times; set MaxRetries: -1", i, s.addr, s.retries)
	}
}

// checkConnections refuses clients that cannot give a connection away.
func checkConnections(clients []redis.UniversalClient, list *problems.List) {
	for i, client := range clients {
		if _, ok := client.(*redis.Client); !ok && !isNil(client) {
			list.Add("node %d: a %T cannot be watched for restarts; use one *redis.Client per node, or set Unguarded", i, client)
		}
	}
}
