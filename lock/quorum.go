package lock

// An outcome is what a round over all nodes comes to.
type outcome uint8

const (
	undecided outcome = iota
	won               // a majority said yes
	refused           // enough nodes answered, and too few said yes
	noQuorum          // too few nodes answered
	cancelled         // the caller's context ended first
)

// A count is how the nodes have voted so far. Nodes that have neither said yes
// nor no nor failed are still out.
type count struct{ yes, no, failed int }

// decide says what a round over n nodes comes to, as soon as it is certain
// whatever the nodes that are still out will say.
func (c count) decide(n int) outcome {
	quorum := n/2 + 1
	out := n - c.yes - c.no - c.failed
	switch {
	case c.yes >= quorum:
		return won
	case c.yes+out >= quorum:
		return undecided
	case c.yes+c.no >= quorum:
		return refused
	case c.failed > n-quorum:
		return noQuorum
	}
	return undecided // lost; whether by votes or by silence is still open
}
