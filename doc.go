// Package redfence makes work happen once.
//
// Services get the same request twice: webhook senders retry, phones lose
// their connection, load balancers fail over, two instances take the same
// message. An Engine lets any number of instances agree that one of them runs
// the work for a key, while the others wait or get the stored answer:
//
//	res, err := engine.Do(ctx, redfence.Request{Scope: "acme", ID: "tx-1"},
//		func(ctx context.Context, ex *redfence.Execution) (redfence.Response, error) {
//			// the effect
//		})
//
// Two stores work together. A quorum of independent Redis nodes holds the
// processing lock and the cache of responses; it keeps stampedes and replays
// away from Postgres. Postgres holds the ledger, one row per key, which alone
// decides who runs and what was answered. While Redis is down a circuit
// breaker routes around it, and back when a quorum answers again. Which route
// a process takes is a matter of speed, never of safety.
//
// # Guarantees
//
// At any moment at most one claim per key can complete. With Hold, the
// default, the handler starts at most once per key and retention unless the
// key was released by declaration, policy, hook or operator. A response that
// was answered as durable is what every later duplicate gets, until its
// retention is over. This holds with any number of Redis nodes crashed, hung,
// flushed or restarted empty, with instances killed, paused or cut off, with
// Postgres crashed and restarted, and with replies lost on the way.
//
// # Caveats
//
// What happens when the owner of a claim dies is a choice that no protocol
// removes. Hold leaves the key unknown until somebody decides: at most once.
// Retry runs the handler again: at least once, effectively once when the
// effect is deduplicated downstream by the key. A fence orders writers; it
// does not deduplicate.
//
// Outside of the guarantees: Postgres losing commits that it has acknowledged
// (an asynchronous standby promoted, fsync off, a restored backup), its clock
// stepping forward by more than the margin, and effects that are neither
// transactional nor deduplicated when Retry takes over.
//
// # When not to use it
//
// When the effect is a write to the same Postgres database and nothing else, a
// unique constraint is simpler. When a duplicate does no harm, nothing is
// needed. For mutual exclusion alone, package lock is enough.
package redfence
