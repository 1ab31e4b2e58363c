// Package lock is a distributed lock over independent Redis nodes (Redlock),
// usable on its own. A lease is held by a majority of the nodes; it is renewed
// while its holder lives, and lapses when the holder dies.
//
// A deployment begins with Init, once, on empty nodes; without it they do not
// vote for the first MaxTTL (60 s), and Acquire waits as long:
//
//	clients, err := lock.Dial("redis://a:6379,redis://b:6379,redis://c:6379")
//	err = lock.Init(ctx, clients) // in a set-up job, not in each process
//
// Every process then:
//
//	locker, err := lock.New(ctx, clients, lock.Config{})
//	lease, err := locker.Acquire(ctx, "nightly-report")
//	defer lease.Release(ctx)
//	run(lease.Context()) // ends when the lease ends
//
// # Guarantees
//
// With a majority of the nodes working and their clocks running at the same
// speed within one per cent:
//
//   - At any moment at most one lease of a name is inside its validity, as its
//     holder reckons it (Lease.ValidUntil), and the context of a lease ends no
//     later than that, in every execution in which its process is scheduled.
//   - A node that lost its memory (restart, FLUSHALL) does not vote before
//     every lock that it may have forgotten has lapsed.
//   - While a majority of the nodes keeps its memory, fences grow strictly from
//     lease to lease of a name; over all names, from a lease to each whose
//     acquire begins when that one is held.
//   - An acquire has exactly one of four outcomes: held, ErrTaken, ErrNoQuorum,
//     ErrTooLate; or its context ended first. It returns as soon as the outcome
//     is certain, whatever the other nodes do.
//   - What a failed or abandoned try has left on a node is removed, under that
//     try's own token, as soon as the node answers; else it lapses with its TTL.
//   - A hung node costs neither time, nor goroutines in proportion to the load.
//     Unguarded, those who ask while it begins to hang wait an eighth of
//     NodeTimeout for it.
//
// # Caveats
//
//   - A lease is a promise about time. A process that is stopped (SIGSTOP, a
//     frozen virtual machine, a long garbage collection) in the middle of its
//     work does not see its lease end; when it goes on, another may hold the
//     lock. Whatever the work writes to should refuse fences that are smaller
//     than one it has seen. A fence orders writers; it does not undo what a
//     process did before it died, nor keep it from being done twice.
//   - A node whose clock is stepped forward forgets its locks early. One node
//     at a time is covered by the majority.
//   - Replicas that are promoted (Sentinel, Cluster as a node) may not know the
//     latest locks and fences; Check says so.
//   - MaxTTL is one constant per deployment. The nodes keep it, and lockers
//     that bring another are refused.
//   - Waiters are served in order within a process; across processes only with
//     WithFair, as a best effort.
//
// # When not to use it
//
//   - When the resource can do it itself: a unique index, a compare-and-set, a
//     transaction are simpler and stronger than any lock.
//   - When the work must not happen twice, whatever happens: that takes a durable
//     record of what was done. The engine (package redfence) keeps one, and its
//     Acquire is a Locker too, with the ledger as the arbiter.
//   - When one Redis node is enough for you: a lock on one node is faster and is
//     lost with the node.
//
// # Sources
//
// The algorithm is Redlock, as its description in the documentation of Redis
// has it (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/),
// with redsync (https://github.com/go-redsync/redsync) counting the votes. What
// it cannot promise, and why locks that guard data need fences, is the subject
// of Martin Kleppmann, "How to do distributed locking" (2016,
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html);
// Salvatore Sanfilippo answered in "Is Redlock safe?" (2016,
// http://antirez.com/news/101). Restart guard, quorum fences and the token per
// try are the consequences that this package draws from both; docs/LOCK.md
// tells how they work.
package lock
