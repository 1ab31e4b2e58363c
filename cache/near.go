package cache

import (
	"bytes"
	"time"

	"github.com/maypok86/otter/v2"
)

const (
	// nearFor is how long an entry may answer: within it, a response that was
	// forgotten elsewhere is still given.
	nearFor = 30 * time.Second
	// nearEntrySize is about what an entry takes beside its bytes.
	nearEntrySize = 256
)

// near keeps the records that this process has seen last, so that a burst of
// duplicates does not leave it. A nil near keeps nothing. Entries that are too
// old answer no more; they take memory until they are asked for or displaced.
type near struct {
	entries *otter.Cache[[32]byte, nearEntry]
}

type nearEntry struct {
	record Record
	until  time.Time
}

// newNear returns a near cache of about the given size in bytes; nil for none.
func newNear(bytes int64) *near {
	if bytes <= 0 {
		return nil
	}
	return &near{otter.Must(&otter.Options[[32]byte, nearEntry]{
		MaximumWeight: uint64(bytes),
		Weigher: func(_ [32]byte, e nearEntry) uint32 {
			return uint32(len(e.record.Payload) + len(e.record.Fingerprint.Sum) + nearEntrySize)
		},
	})}
}

// get returns a record whose bytes every later duplicate gets as well: they must
// not be changed.
func (n *near) get(digest [32]byte) (Record, bool) {
	if n == nil {
		return Record{}, false
	}
	e, ok := n.entries.GetIfPresent(digest)
	if !ok {
		return Record{}, false
	}
	if time.Now().After(e.until) {
		n.entries.Invalidate(digest)
		return Record{}, false
	}
	return e.record, true
}

// put keeps a copy of a record unless there is one of a larger fence.
func (n *near) put(r Record) {
	if n == nil {
		return
	}
	r.Payload = bytes.Clone(r.Payload)
	e := nearEntry{record: r, until: time.Now().Add(nearFor)}
	n.entries.Compute(r.Digest, func(old nearEntry, found bool) (nearEntry, otter.ComputeOp) {
		if found && old.record.Fence > r.Fence {
			return old, otter.CancelOp
		}
		return e, otter.WriteOp
	})
}
