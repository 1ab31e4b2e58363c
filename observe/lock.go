package observe

import "time"

// NodeDown says that this process stopped sending to a Redis node.
type NodeDown struct {
	Node  string
	Cause string
}

// Name implements Event.
func (NodeDown) Name() string { return "node_down" }

// NodeUp says that a Redis node answers this process again.
type NodeUp struct {
	Node string
	// After is how long it was down.
	After time.Duration
}

// Name implements Event.
func (NodeUp) Name() string { return "node_up" }

// NodeRejoined says that a Redis node that had lost its memory votes again.
type NodeRejoined struct{ Node string }

// Name implements Event.
func (NodeRejoined) Name() string { return "node_rejoined" }
