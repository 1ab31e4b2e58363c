package redfence

import (
	"context"
	"maps"
	"slices"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

// Namespaces separate executions from the engine's locks.
const (
	doNamespace   = "do"
	lockNamespace = "lock"
)

// A Key names one piece of work: Scope is the authenticated tenant or user, ID
// what the client sent. Both are opaque bytes; nothing folds or trims them.
type Key struct{ Scope, ID string }

func (k Key) in(namespace string) fallback.Key {
	return fallback.Key{Namespace: namespace, Scope: k.Scope, ID: k.ID}
}

// A Request is one call for the work of a key.
type Request struct {
	// Scope is the authenticated tenant or user. Two scopes never meet.
	Scope string
	// ID is what the client sent. Required.
	ID string
	// Fingerprint tells two requests with one key apart. Optional.
	Fingerprint Fingerprint
	// Policy is used instead of Config.Policy, whole.
	Policy *Policy
}

// Key returns the key of the request.
func (r Request) Key() Key { return Key{Scope: r.Scope, ID: r.ID} }

// A Fingerprint is a digest of what was asked for, without a key: the engine
// keys it under the secret that the row names.
type Fingerprint struct {
	// Version is the algorithm that made Sum; the caller's to number, from 1.
	Version uint8
	// Sum is the digest. Empty: requests are not told apart.
	Sum []byte
	// Other computes the digest of this request under another version, for
	// rows that an older or newer binary wrote; ok is false when it cannot.
	Other func(version uint8) (sum []byte, ok bool)
}

// A Response is what a handler answers and every duplicate gets. Status and
// Header are free for the caller; package redfencehttp uses them as in HTTP.
type Response struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// clone returns a response that shares nothing with r.
func (r Response) clone() Response {
	r.Header = maps.Clone(r.Header)
	for name, values := range r.Header {
		r.Header[name] = slices.Clone(values)
	}
	r.Body = slices.Clone(r.Body)
	return r
}

// A Handler does the work of one key. Its context ends when the claim may be
// lost (Retry), at Policy.MaxProcessing, or with the caller's context.
//
// A plain error means what Policy.OnError says; Undone and Store declare it.
type Handler func(ctx context.Context, ex *Execution) (Response, error)

// Outcome says how a call of Do got its response.
type Outcome uint8

const (
	// Executed: the handler ran in this call.
	Executed Outcome = iota + 1
	// Replayed: the response of an earlier call, from cache or ledger.
	Replayed
	// Joined: the response of a call that was running in this process.
	Joined
	// Unrecorded: the handler ran in this call without protection
	// (Policy.FailOpen) and nothing was recorded.
	Unrecorded
)

// String returns executed, replayed, joined or unrecorded.
func (o Outcome) String() string {
	switch o {
	case Executed:
		return "executed"
	case Replayed:
		return "replayed"
	case Joined:
		return "joined"
	case Unrecorded:
		return "unrecorded"
	}
	return "none"
}

// A Result is what a call of Do returns beside its error.
type Result struct {
	Outcome  Outcome
	Response Response
	// Fence of the claim that made the response. 0: none.
	Fence int64
	// Durable: the ledger has confirmed the response; every later duplicate
	// gets it until the retention is over.
	Durable bool
	// Route that the request took.
	Route observe.Route
}
