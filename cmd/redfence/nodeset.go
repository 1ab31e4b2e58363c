package main

import (
	"context"
	"fmt"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/node"
)

const nextForOtherNodes = "name all of these nodes with --redis; if they are the same under other names, --other-nodes warn"

// otherNodesError: the ledger has recorded other nodes than --redis names.
type otherNodesError struct {
	own      string
	recorded fallback.NodeSet
}

func (e *otherNodesError) Error() string {
	return fmt.Sprintf("--redis names %s; the engines of this ledger use %s, recorded at %s",
		e.own, e.recorded.Nodes, e.recorded.Since.UTC().Format("2006-01-02 15:04:05Z"))
}

// checkNodeSet compares the nodes with those that the ledger has recorded; none
// recorded is fine. Its error is an *otherNodesError, or what kept it from
// being asked.
func checkNodeSet(ctx context.Context, ledger fallback.NodeSetKeeper, clients nodes) error {
	recorded, err := ledger.NodeSet(ctx)
	if err != nil {
		return err
	}
	if own := node.SetName(clients.universal()); recorded.Nodes != "" && recorded.Nodes != own {
		return &otherNodesError{own, recorded}
	}
	return nil
}
