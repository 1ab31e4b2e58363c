// Package observe defines what Redfence tells about itself: typed events and
// the Observer that receives them. It is a leaf: it imports the standard
// library only, and every other package may import it.
//
// Events carry no request bodies, no responses and no raw keys. A key appears
// as the first bytes of its digest, enough to correlate, not enough to guess
// the key.
package observe

import (
	"encoding/hex"
	"time"
)

// An Event is one thing that happened. Its Name is stable and is used as the
// message of a log line and as the label of a metric.
type Event interface {
	// Name returns the event's stable name in snake case.
	Name() string
}

// An Observer receives events. Observe is called on the hot path, from many
// goroutines at once: it must be fast, must not block and must not call back
// into the component that sent the event. Put a Fanout in front of anything
// slower than a counter.
type Observer interface {
	Observe(Event)
}

// Func makes an Observer of a function.
type Func func(Event)

// Observe calls f.
func (f Func) Observe(e Event) { f(e) }

// Discard drops every event.
var Discard Observer = Func(func(Event) {})

// Or returns o, or Discard when o is nil.
func Or(o Observer) Observer {
	if o == nil {
		return Discard
	}
	return o
}

// Ref is the short, non-reversible reference to a key in events and logs:
// the first eight bytes of the key's digest.
type Ref [8]byte

// String returns the reference in hexadecimal.
func (r Ref) String() string { return hex.EncodeToString(r[:]) }

// RefOf returns the reference of a digest. Shorter digests are zero-padded.
func RefOf(digest []byte) Ref {
	var r Ref
	copy(r[:], digest)
	return r
}

// Route is the way that a request takes through the stores.
type Route string

const (
	// Primary is cache, Redlock, ledger: the breaker is closed.
	Primary Route = "primary"
	// Fallback is the ledger alone: the breaker is open.
	Fallback Route = "fallback"
)

// RouteChanged says that this process changed its route.
type RouteChanged struct {
	From, To Route
	// Reason is one line: what made the breaker open or close.
	Reason string
	// For is how long the earlier route was in use.
	For time.Duration
}

// Name implements Event.
func (RouteChanged) Name() string { return "route_changed" }
