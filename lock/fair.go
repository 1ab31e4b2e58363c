package lock

import (
	"context"
	"time"

	"github.com/redfence/redfence/internal/node"
)

const (
	// fairPoll is how often a fair waiter visits its places in line.
	fairPoll = 250 * time.Millisecond
	// fairForget is when a waiter that no longer comes is forgotten.
	fairForget = 3 * time.Second
)

// place is a fair waiter's place in the lines of the nodes.
type place struct {
	r     *Redlock
	keys  []string
	token string
}

func (r *Redlock) newPlace(name string) *place {
	base := r.cfg.Prefix + "{" + name + "}:"
	return &place{r: r, keys: []string{base + "w", base + "v"}, token: newToken()}
}

// first visits the line on every node and says whether a majority has nobody
// before this waiter. Nodes that do not answer have nobody: fairness may
// suffer from an outage, availability may not.
func (p *place) first(ctx context.Context) bool {
	c := p.r.newCall("line up", func(_ *slot, value any) (vote, error) {
		if value == int64(0) {
			return yes, nil
		}
		return no, nil
	})
	c.command(lineUpScript, lineUpScript.Command(p.keys, p.token, fairForget.Milliseconds()))
	_ = c.decide(ctx, p.r.cfg.NodeTimeout) // what counts is who said no
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.votes.no < p.r.set.Quorum()
}

// leave gives the places up.
func (p *place) leave() {
	for _, n := range p.r.nodes {
		n.Send(&node.Op{
			Script: leaveLineScript,
			Args:   leaveLineScript.Command(p.keys, p.token),
			To:     node.ReceiverFunc(func(*node.Op, any, error) {}), // forgotten by itself otherwise
		})
	}
}
