package cache

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/problems"
)

// Forget leaves a marker in place of a key's record on every node, so that no
// put of an earlier fence, however late, brings the response back. Digest,
// Fence and ExpiresAt of r count: the fence is the one that the ledger drew for
// the erasure, and the marker stays until ExpiresAt. now is the ledger's clock
// as the caller knows it.
//
// It returns nil when every node has answered; else one error that names the
// nodes that have not: those may serve the response until it expires, or until
// Forget is called again. Other processes keep it for up to 30 s.
func (c *Cache) Forget(ctx context.Context, r Record, now time.Time) error {
	marker := Record{Kind: Forgotten, Digest: r.Digest, Token: r.Token, Fence: r.Fence, ExpiresAt: r.ExpiresAt}
	c.near.put(marker)
	encoded, err := marker.encode(c.cfg.Keys)
	if err != nil {
		return fmt.Errorf("cache: forget: %w", err)
	}
	ttl := int64(0) // for ever
	if !r.ExpiresAt.IsZero() {
		ttl = max(1, r.ExpiresAt.Sub(now).Milliseconds())
	}
	args := putScript.Command([]string{keyOf(r.Digest)}, encoded, ttl)
	answers := make(chan forgotten, len(c.nodes))
	for _, n := range c.nodes {
		n.Send(&node.Op{Args: args, Script: putScript, To: node.ReceiverFunc(func(_ *node.Op, _ any, err error) {
			answers <- forgotten{n, err}
		})})
	}
	return wait(ctx, c.nodes, answers)
}

// forgotten is one node's answer.
type forgotten struct {
	node *node.Node
	err  error
}

var errNoAnswer = errors.New("no answer")

func wait(ctx context.Context, nodes []*node.Node, answers <-chan forgotten) error {
	missing := make(map[*node.Node]error, len(nodes))
	for _, n := range nodes {
		missing[n] = errNoAnswer
	}
	var ended error
	for range nodes {
		select {
		case a := <-answers:
			if missing[a.node] = a.err; a.err == nil {
				delete(missing, a.node)
			}
			continue
		case <-ctx.Done():
			ended = ctx.Err()
		}
		break
	}
	var list problems.List
	for _, n := range nodes {
		if err := missing[n]; err != nil {
			list.Add("node %s: %w", n.Addr(), err)
		}
	}
	if err := list.Err(); err != nil {
		return errors.Join(fmt.Errorf("cache: %w", err), ended)
	}
	return nil
}
