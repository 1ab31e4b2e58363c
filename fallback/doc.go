// Package fallback is the ledger: one row per key, the arbiter of claims and
// the durable record of responses. Both routes of the engine end at it. Redis
// makes things fast; what is true is in the ledger.
//
//	ledger, err := fallback.Open(ctx, pool, fallback.Config{})  // PostgreSQL
//	ledger := fallback.NewMemory()                              // one process
//
// Everything is a compare-and-set: Claim needs a row that is free, and what an
// owner does needs the token and the fence of its claim in the row. Package
// ledgertest holds the conformance suite for both, and for any other.
//
// # Guarantees
//
// A call that returns nil has been committed, durably: each transaction sets
// synchronous_commit for itself, whatever the role or the database says. Fences
// grow with each claim of a key, in the order of the commits. No transition
// deletes a row; the sweeper removes rows that have been free for longer than
// any claim statement can live. A row of a state or version that this binary
// does not know is never claimed, changed or removed.
//
// # The caller's pool
//
// Open takes a pool and leaves it as it is: nothing is set on its sessions
// beyond a transaction. Calls of one kind that are made at the same time share
// a statement and a commit, so that a ledger needs few connections: four are
// enough, and one more listens for wake-ups. An application that holds all
// connections makes calls fail with ErrOverloaded, not with ErrUnavailable.
//
// Behind a pooler in transaction mode, set default_query_exec_mode=exec in the
// DSN: prepared statements are then not kept. Wake-ups need a direct address
// there (Config.Listen); without one waiters poll. The conformance suite is run
// through PgBouncer like this (tested with 1.18).
//
// With several hosts in the DSN, put target_session_attrs=read-write into it. A
// standby is refused. When a standby of the same system has become the primary
// the ledger adopts it: fences go on far above, and take-overs rest until every
// lease that was granted before has ended. A database that was restored
// elsewhere is refused until an operator calls Adopt.
//
// The SQL is written for PostgreSQL 14 to 18 and tested on 15; the others were
// not run.
//
// # Rights
//
// The role that calls Migrate owns the tables. The role of the application
// needs what PrintGrants prints, and no more.
//
// # Caveats
//
// A promoted asynchronous standby, fsync=off or a restored backup lose
// acknowledged commits, and nothing built on them can know. Check reports such
// settings.
package fallback
