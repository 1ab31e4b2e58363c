// Package breaker decides which route a process takes: the primary one through
// the Redis quorum, or the fallback route through the ledger alone.
//
// It is a circuit breaker on github.com/sony/gobreaker with three additions:
// a canary of its own probes the quorum while the breaker is not closed, so no
// user's request ever does; operators may force a route; changes of the route
// are told as events, outside of every lock.
//
// # Guarantees
//
//   - Which route is taken is a matter of speed, never of safety: both end at
//     the ledger. A wrong judgement here costs time only.
//   - Only "no quorum" opens the breaker. A lock that is taken is an answer of
//     the quorum; a full local pool and a caller's own cancellation say nothing.
//   - Once open it stays open for at least Config.OpenFor, and it takes
//     Config.Successes canaries in a row to close it.
//   - A canary that hangs is given up at its own deadline. As long as it has
//     not returned, no other one is started.
//
// # Caveats
//
// The judgement is each process's own: two instances may be on different
// routes at the same moment.
package breaker
