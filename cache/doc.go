// Package cache keeps completed responses in Redis, so that a duplicate of a
// completed key costs one Redis read and never touches the ledger.
//
// # Guarantees
//
//   - A miss is never an error: whatever is wrong with a node or a record, the
//     ledger answers instead.
//   - A record is used only if it belongs to the key that was asked for, is not
//     expired by the ledger's clock as its reader estimates it, and, with
//     secrets configured, carries a tag made under one of them.
//   - A put never replaces a record or marker of a larger fence, however late
//     it arrives.
//   - After Forget has succeeded no node serves the response any more. A node
//     that did not answer is named, and may serve it until it has expired.
//
// # Caveats
//
// Redis expires records only to free memory. The time-to-live is never what
// decides whether a record may be used.
//
// Records without a tag (no secret configured) are as trustworthy as everybody
// who can write to the nodes.
package cache
