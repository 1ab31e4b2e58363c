// Package cluster is what a chaos run is done to: Redis nodes, the ledger, and
// engine instances. There are two: processes, and a rehearsal in one process
// for machines without servers.
package cluster

import (
	"context"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Options say what to start.
type Options struct {
	// Nodes is how many Redis nodes.
	Nodes int
	// Instances is how many engine instances.
	Instances int
	// Recorder is the URL of the effect recorder.
	Recorder string
	// Dir takes the instances' logs.
	Dir string
	// Mutant is the rule that the instances break on purpose. Empty: none.
	Mutant string
	// Engine that the instances serve with. Empty: ours.
	Engine string
	// Policy of the instances: hold or retry.
	Policy string
	// Lease of their claims.
	Lease time.Duration
	// SmallDisk keeps the ledger's table on a disk of its own of so many
	// megabytes that can be filled, which takes the right to mount one. 0: no.
	SmallDisk int
	// Unbiased instances make nothing frequent that is seldom: for
	// measurements.
	Unbiased bool
}

// Cluster is a running deployment. Its methods may be called from several
// goroutines.
type Cluster interface {
	// Instances returns the base URLs of the engine instances.
	Instances() []string
	// Nodes returns how many Redis nodes there are.
	Nodes() int
	// Do does an action and says how it was seen to have happened. Actions
	// come one after the other.
	Do(ctx context.Context, a history.Action) (proof string, err error)
	// Lockers are what instances serve plain locks of; Transfers says whether
	// they serve DoTx.
	Lockers() []string
	Transfers() bool
	// Rows returns the ledger's rows of the keys.
	Rows(ctx context.Context, keys []string) ([]history.Row, error)
	// Accounts returns what the transfers have left; nil where there are none.
	Accounts(ctx context.Context) (*history.Accounts, error)
	// Locks returns the locks that are on the nodes now.
	Locks(ctx context.Context) ([]string, error)
	// Health returns an error when a part that no fault has touched is gone.
	Health() error
	// Close ends everything.
	Close() error
}
