package lock

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redfence/redfence/internal/node"
)

var (
	// ErrNotAcquired is matched by every failed acquire.
	ErrNotAcquired = errors.New("lock not acquired")
	// ErrTaken: the nodes answered, and another holds the lock, or others
	// have divided the nodes among them.
	ErrTaken = errors.New("lock taken")
	// ErrNoQuorum: too few nodes answered to say who holds the lock.
	ErrNoQuorum = errors.New("no quorum")
	// ErrTooLate: the quorum was reached after the validity had passed.
	ErrTooLate = errors.New("quorum reached too late")
	// ErrLost: the lease has lapsed or is another's.
	ErrLost = errors.New("lease lost")
	// ErrNotHeld: the lease was released already.
	ErrNotHeld = errors.New("lease not held")
	// ErrOverloaded: this process has more commands waiting than it may, or
	// a client's pool is exhausted. It says nothing about the nodes.
	ErrOverloaded = node.ErrOverloaded
	// ErrClosed: the locker was closed.
	ErrClosed = node.ErrClosed
)

// A NodeError is what one node said, or why it said nothing.
type NodeError struct {
	// Node is the node's address, Index its place among the clients.
	Node  string
	Index int
	// Holder is who holds the lock there, when Err is ErrTaken.
	Holder string
	Err    error
}

// Error implements error.
func (e NodeError) Error() string {
	if e.Holder != "" {
		return fmt.Sprintf("node %d (%s): taken by %s", e.Index, e.Node, capped(e.Holder))
	}
	return fmt.Sprintf("node %d (%s): %v", e.Index, e.Node, e.Err)
}

// Unwrap returns Err.
func (e NodeError) Unwrap() error { return e.Err }

// An Error says why an acquire, an extension or a release failed. It matches
// its Reason, the context's error when a context ended, ErrNotAcquired when it
// comes from an acquire, and ErrOverloaded when that alone made the difference.
type Error struct {
	// Op is acquire, extend or release.
	Op   string
	Name string
	// Reason is ErrTaken, ErrNoQuorum, ErrTooLate, ErrLost, ErrOverloaded or
	// ErrClosed; nil when the caller's context ended before anything was
	// certain.
	Reason error
	// Holder is who holds the lock, as most nodes say. Empty: nobody knows.
	Holder string
	// Remaining is the longest TTL that a node gave for that holder. 0:
	// unknown.
	Remaining time.Duration
	// Nodes are the nodes that did not agree, and why.
	Nodes []NodeError
	// Ctx is the context's error, nil when no context had ended.
	Ctx error

	divided bool // no single holder has a majority
	queued  bool // not tried: others are to be served before
}

// Error implements error, in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock: %s %s", e.Op, quoted(e.Name))
	switch {
	case e.Reason == ErrTaken && e.Holder != "":
		fmt.Fprintf(&b, ": taken by %s for %v", capped(e.Holder), e.Remaining.Round(time.Millisecond))
	case e.Reason != nil:
		fmt.Fprintf(&b, ": %v", e.Reason)
	}
	if e.Ctx != nil {
		fmt.Fprintf(&b, ": %v", e.Ctx)
	}
	if e.Reason == ErrTaken && e.Holder != "" {
		return b.String()
	}
	for i, n := range e.Nodes {
		sep := "; "
		if i == 0 {
			sep = " ("
		}
		b.WriteString(sep + n.Error())
	}
	if len(e.Nodes) > 0 {
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap lists what the error matches.
func (e *Error) Unwrap() []error {
	var list []error
	if e.Op == opAcquire {
		list = append(list, ErrNotAcquired)
	}
	if e.Reason != nil {
		list = append(list, e.Reason)
	}
	if e.Ctx != nil {
		list = append(list, e.Ctx)
	}
	for _, n := range e.Nodes {
		var guard *GuardError
		if errors.As(n.Err, &guard) {
			list = append(list, guard)
		}
	}
	return list
}

const (
	opAcquire = "acquire"
	opExtend  = "extend"
	opRelease = "release"

	longestText = 64
)

func quoted(name string) string { return fmt.Sprintf("%q", capped(name)) }

func capped(text string) string {
	if len(text) <= longestText {
		return text
	}
	return text[:longestText] + "…"
}

// A GuardError says why a node that answers does not vote: it has lost its
// memory, and may have forgotten locks that are still held.
type GuardError struct {
	// Reason is what the node's marker showed.
	Reason string
	// Until is when it votes again, on this process's clock. Zero: when
	// somebody has acted.
	Until time.Time
}

// Error implements error.
func (e *GuardError) Error() string {
	if e.Until.IsZero() {
		return "vote withheld: " + e.Reason
	}
	return fmt.Sprintf("vote withheld: %s; votes again in %v", e.Reason,
		max(time.Until(e.Until), 0).Round(time.Millisecond))
}

// failure makes the error of a call that was not won.
func failure(op, name string, c *call, ctxErr error) *Error {
	e := &Error{Op: op, Name: name, Nodes: c.causes(), Ctx: ctxErr}
	switch o := c.outcome(); {
	case o == refused && op == opAcquire:
		e.Reason = ErrTaken
		e.Holder, e.Remaining, e.divided = c.holder()
	case o == refused:
		e.Reason = ErrLost
	case o == noQuorum:
		e.Reason = whyNoQuorum(e.Nodes, len(c.slots))
	case ctxErr == nil:
		e.Reason = ErrTooLate
	}
	return e
}

// whyNoQuorum tells nodes that do not answer from a process that asks too
// much: the latter, when the nodes refused for that reason alone would have
// made the difference.
func whyNoQuorum(nodes []NodeError, n int) error {
	broken, overloaded := 0, 0
	for _, e := range nodes {
		switch {
		case errors.Is(e.Err, ErrTaken), errors.Is(e.Err, ErrLost):
		case errors.Is(e.Err, ErrClosed):
			return ErrClosed
		case errors.Is(e.Err, ErrOverloaded):
			overloaded++
		default:
			broken++
		}
	}
	if overloaded > 0 && broken <= n-(n/2+1) {
		return ErrOverloaded
	}
	return ErrNoQuorum
}

// holder returns the owner that most nodes name, the longest TTL that they
// gave, and whether they are less than a majority.
func (c *call) holder() (owner string, remaining time.Duration, divided bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]int{}
	for i := range c.slots {
		if s := &c.slots[i]; s.vote == no {
			names[s.reply.holder]++
		}
	}
	best := ""
	for value, n := range names {
		if n > names[best] || (n == names[best] && value < best) {
			best = value
		}
	}
	for i := range c.slots {
		if s := &c.slots[i]; s.vote == no && s.reply.holder == best {
			remaining = max(remaining, time.Duration(s.reply.ttlMS)*time.Millisecond)
		}
	}
	return ownerOf(best), remaining, names[best] < len(c.slots)/2+1
}
