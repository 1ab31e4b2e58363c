package history

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of an Action. Each that breaks something has one that mends it.
const (
	KillNode    = "kill-node" // SIGKILL
	RestartNode = "restart-node-empty"
	RebootNode  = "reboot-node" // restarted with its data
	PauseNode   = "pause-node"  // SIGSTOP
	ResumeNode  = "resume-node"
	FlushNode   = "flush-node"
	LapseLocks  = "lapse-locks" // the engine's on a node, as its clock jumping ahead does
	StallNode   = "stall-node"  // CLIENT PAUSE; ends by itself
	EvictNode   = "evict-node"  // a memory limit, for a moment
	SlowNode    = "slow-node"   // for every instance
	QuickenNode = "quicken-node"

	CutRedis       = "cut-redis"          // an instance from every node
	HoldReplies    = "hold-redis-replies" // one way: commands arrive
	HoldRequests   = "hold-redis-requests"
	SlowRedis      = "slow-redis"
	HealRedis      = "heal-redis"
	DropRedisReply = "drop-redis-replies" // the next one of every node

	CutPostgres         = "cut-postgres" // an instance from Postgres
	HoldPostgresReplies = "hold-postgres-replies"
	HealPostgres        = "heal-postgres"
	DropReply           = "drop-postgres-reply" // the next one that an instance would get

	KillPostgres    = "kill-postgres" // SIGKILL
	StartPostgres   = "restart-postgres"
	StopPostgres    = "pause-postgres" // SIGSTOP
	WakePostgres    = "resume-postgres"
	RefuseInstances = "refuse-postgres" // ALTER ROLE … CONNECTION LIMIT 0, sessions ended
	AdmitInstances  = "admit-postgres"
	LockTable       = "lock-postgres-table" // ACCESS EXCLUSIVE, for a moment
	LockRows        = "lock-postgres-rows"  // of keys in progress, for a moment
	FillDisk        = "fill-postgres"       // the disk under the table
	FreeDisk        = "free-postgres"

	KillInstance  = "kill-instance"  // SIGKILL
	DrainInstance = "drain-instance" // SIGTERM
	StartInstance = "restart-instance"
	StopInstance  = "pause-instance" // SIGSTOP
	WakeInstance  = "resume-instance"
	SplitNodes    = "change-nodes-of-instance" // restarted with other Redis nodes
	JoinNodes     = "restore-nodes-of-instance"
)

// ErrMissed: an action was tried, and nothing passed that it could have hit.
var ErrMissed = errors.New("nothing passed that it could have hit")

// An Action is one thing that can be done to a cluster: to a Redis node, to an
// instance or its links, or to Postgres.
type Action struct {
	Kind     string `json:"action"`
	Node     int    `json:"node,omitempty"`
	Instance int    `json:"instance,omitempty"`
}

// On says what an action is done to: node, instance or postgres.
func (a Action) On() string {
	switch {
	case strings.HasSuffix(a.Kind, "-node"), a.Kind == RestartNode, a.Kind == LapseLocks:
		return "node"
	case a.Kind == CutPostgres, a.Kind == HoldPostgresReplies, a.Kind == HealPostgres, a.Kind == DropReply:
		return "instance"
	case strings.Contains(a.Kind, "-postgres"):
		return "postgres"
	}
	return "instance"
}

// mendedBy says which action undoes which; what is not in it passes by itself.
var mendedBy = map[string]string{
	KillNode: RestartNode, PauseNode: ResumeNode, SlowNode: QuickenNode,
	CutRedis: HealRedis, HoldReplies: HealRedis, HoldRequests: HealRedis, SlowRedis: HealRedis,
	CutPostgres: HealPostgres, HoldPostgresReplies: HealPostgres,
	KillPostgres: StartPostgres, StopPostgres: WakePostgres, RefuseInstances: AdmitInstances, FillDisk: FreeDisk,
	KillInstance: StartInstance, DrainInstance: StartInstance, StopInstance: WakeInstance, SplitNodes: JoinNodes,
}

// MendedBy returns the kind of the action that undoes this one; empty: it
// passes by itself, or it mends.
func (a Action) MendedBy() string { return mendedBy[a.Kind] }

// Mends reports whether an action undoes others.
func (a Action) Mends() bool {
	for _, kind := range mendedBy {
		if kind == a.Kind {
			return true
		}
	}
	return false
}

// Number is which node or instance an action is done to; 0 for Postgres.
func (a Action) Number() int {
	switch a.On() {
	case "node":
		return a.Node
	case "postgres":
		return 0
	}
	return a.Instance
}

// LosesMemory reports whether a node forgets in an action what it kept.
func (a Action) LosesMemory() bool {
	return a.Kind == RestartNode || a.Kind == FlushNode || a.Kind == EvictNode
}

// String names the action and what it is done to.
func (a Action) String() string {
	switch a.On() {
	case "node":
		return fmt.Sprintf("%s %d", a.Kind, a.Node)
	case "postgres":
		return a.Kind
	}
	return fmt.Sprintf("%s %d", a.Kind, a.Instance)
}

// LosesOutcomes reports whether an action can leave a key whose outcome nobody
// knows: an owner dies, or the reply of a claim or completion is lost.
func (a Action) LosesOutcomes() bool {
	switch a.Kind {
	case KillInstance, KillPostgres, StopPostgres, CutPostgres, HoldPostgresReplies, DropReply, RefuseInstances:
		return true
	}
	return false
}
