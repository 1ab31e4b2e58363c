package redfence

import (
	"context"
	"fmt"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/observe"
)

// OtherNodes says what New does when the ledger has recorded another set of
// Redis nodes than Config.Nodes. Engines with different nodes do not exclude
// one another by Redlock; the ledger still arbitrates every claim, so nothing
// runs twice, but duplicates cost more.
type OtherNodes uint8

const (
	// WarnOfOtherNodes, the default, sends observe.NodeSetDiffers.
	WarnOfOtherNodes OtherNodes = iota
	// RefuseOtherNodes makes New fail.
	RefuseOtherNodes
	// MoveToNodes records Config.Nodes as the new set: a declared migration.
	// Roll it out instance by instance; those that still have the old set warn
	// when they start, or refuse.
	MoveToNodes
)

// checkNodes compares the nodes with those that the ledger has recorded, and
// records them if there are none. A ledger that does not answer, or does not
// keep the set, is no reason not to start.
func (e *Engine) checkNodes(ctx context.Context) error {
	keeper, ok := e.ledger.(fallback.NodeSetKeeper)
	if !ok {
		return nil
	}
	own := node.SetName(e.cfg.Nodes)
	for {
		recorded, err := keeper.NodeSet(ctx)
		if err != nil || recorded.Nodes == own {
			return nil
		}
		if recorded.Nodes != "" && e.cfg.OnOtherNodes != MoveToNodes {
			return e.otherNodes(own, recorded)
		}
		if done, err := keeper.SetNodeSet(ctx, recorded.Nodes, own); done || err != nil {
			return nil
		}
	}
}

func (e *Engine) otherNodes(own string, recorded fallback.NodeSet) error {
	if e.cfg.OnOtherNodes == RefuseOtherNodes {
		return fmt.Errorf("Nodes: %s; the engines of this ledger use %s since %v: use the same, or declare a migration (OnOtherNodes: MoveToNodes)",
			own, recorded.Nodes, recorded.Since)
	}
	e.cfg.Observer.Observe(observe.NodeSetDiffers{Own: own, Recorded: recorded.Nodes, Since: recorded.Since})
	return nil
}
