package redfencehttp

import (
	"context"
	"sync/atomic"
)

// A Disposition says what becomes of the outcome of one execution.
type Disposition uint8

const (
	// Stored: the response is recorded, and every duplicate gets it.
	Stored Disposition = iota + 1
	// Released: the response goes to this client only; the next request with
	// the key runs the handler again. Say so only if nothing has happened.
	Released
	// Unknown: the response goes to this client only, and the key waits until
	// a recovery hook or an operator says how it ended.
	Unknown
)

// String returns stored, released or unknown.
func (d Disposition) String() string {
	switch d {
	case Stored:
		return "stored"
	case Released:
		return "released"
	case Unknown:
		return "unknown"
	}
	return "none"
}

// execution is what the middleware keeps in the context of a handler.
type execution struct {
	fence    int64
	attempt  int
	declared atomic.Uint32
}

// or returns what was declared, or else the given disposition.
func (x *execution) or(otherwise Disposition) Disposition {
	if d := Disposition(x.declared.Load()); d != 0 {
		return d
	}
	return otherwise
}

type executionKey struct{}

func executionOf(ctx context.Context) *execution {
	x, _ := ctx.Value(executionKey{}).(*execution)
	return x
}

// Declare says what becomes of this request's outcome, whatever the route's
// policy says of its status. The handler calls it before it returns; the last
// call counts. Outside of a protected handler it does nothing.
func Declare(ctx context.Context, d Disposition) {
	if x := executionOf(ctx); x != nil {
		x.declared.Store(uint32(d))
	}
}

// Fence returns the fence of the claim that the handler runs under: larger for
// every later claim of the key. Send it along with the effect, so that the
// receiver can refuse an older one. ok is false when the request is not
// protected (no key, or run under redfence.Policy.FailOpen).
func Fence(ctx context.Context) (fence int64, ok bool) {
	x := executionOf(ctx)
	if x == nil || x.fence == 0 {
		return 0, false
	}
	return x.fence, true
}

// Attempt counts the starts of the handler for this key, from 1. 0: the request
// is not protected.
func Attempt(ctx context.Context) int {
	if x := executionOf(ctx); x != nil {
		return x.attempt
	}
	return 0
}
