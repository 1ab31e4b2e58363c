// Package gateway puts Redfence in front of any HTTP service, in any language:
// a reverse proxy that lets each request with an idempotency key through to its
// upstream once and replays the recorded response to every duplicate.
//
// The upstream sees the request as the client sent it, plus the fence of its
// claim in Redfence-Fence: larger for every later claim of the key, so that it
// can refuse stale work. It may answer with Redfence-Outcome (stored, released
// or unknown) to say what becomes of the outcome, whatever its status.
//
// Under /-/ the gateway answers itself: healthz, readyz, policy, openapi.json
// and, where configured, metrics and the lock API.
//
// # Guarantees
//
// Those of packages redfence and redfencehttp, and: a request is sent to the
// upstream at most once per claim. The client of net/http would send a POST
// with an Idempotency-Key again on its own when its connection breaks; the
// gateway's does not.
//
// # Caveats
//
// Replays are served without asking the upstream, so the gateway itself must
// know who asks: see [Scope]. A failure to connect to the upstream releases the
// key; any later failure counts as a 502 or 504 of the route's preset.
package gateway
