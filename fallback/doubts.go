package fallback

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// A doubt is a claim that was sent and of which no verdict came (R1). Until
// its not-after it may still land; and one that began before may still be in
// its commit, for as long as the server's disk or its standby take. A read of
// its key therefore waits for its transaction: what it then shows after the
// not-after is final.
type doubt struct {
	send     int64 // names the transaction's guard
	notAfter time.Time
}

// doubts are those of this process. Its zero value is ready.
type doubts struct {
	mu sync.Mutex
	of map[Digest][]doubt
}

// longestDoubt is how long after its not-after a doubt that nobody reads is
// remembered.
const longestDoubt = time.Hour

func (d *doubts) add(digests [][]byte, new doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = make(map[Digest][]doubt)
	}
	for old, all := range d.of { // doubts are rare: there is time to tidy up
		d.keep(old, slices.DeleteFunc(all, func(x doubt) bool {
			return new.notAfter.Sub(x.notAfter) > longestDoubt
		}))
	}
	for _, raw := range digests {
		d.of[Digest(raw)] = append(d.of[Digest(raw)], new)
	}
}

func (d *doubts) keep(digest Digest, all []doubt) {
	if len(all) == 0 {
		delete(d.of, digest)
		return
	}
	d.of[digest] = all
}

// about returns the doubts about a key.
func (d *doubts) about(digest Digest) []doubt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.of[digest])
}

// settle forgets the doubts whose not-after has passed when their transactions
// were found to be over.
func (d *doubts) settle(digest Digest, waited []doubt, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keep(digest, slices.DeleteFunc(d.of[digest], func(x doubt) bool {
		return slices.Contains(waited, x) && now.After(x.notAfter)
	}))
}

// newSend names one send of a batch of claims.
func newSend() int64 {
	t := NewToken()
	return int64(binary.BigEndian.Uint64(t[:8]) | 1) // not 0, which is no guard
}
