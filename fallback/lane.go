package fallback

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"
)

// A lane makes batches of the calls of one kind (group commit). The first
// caller goes at once; those who arrive while its batch is under way form the
// next one. A batch that takes long (a locked row, a dead connection) does not
// keep later callers waiting: a few more may go beside it. There is no timer
// and no idle goroutine.
type lane[Q, R any] struct {
	// run answers every ticket of a batch, in its own time. No digest is in a
	// batch twice, and tickets are sorted by digest.
	run func(batch []*ticket[Q, R])
	// share lets calls that wait for one digest share a ticket: reads.
	share bool
	// size of a ticket in bytes, towards maxBatchBytes; nil: nothing.
	size               func(*Q) int
	maxBatch, maxQueue int
	group              *group

	mu      sync.Mutex // guards all below
	waiting []*ticket[Q, R]
	shared  map[Digest]*ticket[Q, R]
	bytes   int                 // of the waiting
	running int                 // batches under way
	began   time.Time           // the last of them
	taken   map[Digest]struct{} // by the batch that is being made
}

// slowBatch is how long a batch may take before another goes beside it, and
// maxBeside how many go at a time.
const (
	slowBatch = 50 * time.Millisecond
	maxBeside = 4
)

// maxBatchBytes bounds the payload of one batch, so that a few large bodies do
// not make one huge message; maxQueueBytes bounds what waits for one.
const (
	maxBatchBytes = 4 << 20
	maxQueueBytes = 256 << 20
)

// A ticket is one call on its way through a lane.
type ticket[Q, R any] struct {
	digest Digest
	ask    Q
	answer R
	err    error
	done   chan struct{} // closed when answer or err is set
}

// settle answers the ticket. It must be called once.
func (t *ticket[Q, R]) settle(answer R, err error) {
	t.answer, t.err = answer, err
	close(t.done)
}

// settled reports whether the ticket has been answered.
func (t *ticket[Q, R]) settled() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// enter queues a call. The context counts until then.
func (l *lane[Q, R]) enter(ctx context.Context, d Digest, ask Q) (*ticket[Q, R], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.share {
		if t, ok := l.shared[d]; ok {
			return t, nil
		}
	}
	t := &ticket[Q, R]{digest: d, ask: ask, done: make(chan struct{})}
	size := l.sizeOf(&t.ask)
	if len(l.waiting) >= l.maxQueue || l.bytes > 0 && l.bytes+size > maxQueueBytes {
		return nil, ErrOverloaded
	}
	more := l.running == 0 || l.running < maxBeside && time.Since(l.began) > slowBatch
	if more && !l.group.join() {
		return nil, ErrClosed
	}
	l.waiting = append(l.waiting, t)
	l.bytes += size
	if l.share {
		if l.shared == nil {
			l.shared = make(map[Digest]*ticket[Q, R])
		}
		l.shared[d] = t
	}
	if more {
		l.running++
		l.began = time.Now()
		go l.work()
	}
	return t, nil
}

// call queues a call and waits for its answer, or until the context is done:
// the statement goes on all the same.
func (l *lane[Q, R]) call(ctx context.Context, d Digest, ask Q) (R, error) {
	t, err := l.enter(ctx, d, ask)
	if err != nil {
		var none R
		return none, err
	}
	select {
	case <-t.done:
		return t.answer, t.err
	case <-ctx.Done():
		var none R
		return none, ctx.Err()
	}
}

// work runs batches until nothing waits.
func (l *lane[Q, R]) work() {
	defer l.group.leave()
	for {
		batch := l.next()
		if batch == nil {
			return
		}
		l.run(batch)
	}
}

// next takes the next batch from the queue: the oldest calls, none of a digest
// that is in it already. It ends the worker when nothing waits.
func (l *lane[Q, R]) next() []*ticket[Q, R] {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.waiting = nil
		l.running--
		return nil
	}
	l.began = time.Now()
	if l.taken == nil {
		l.taken = make(map[Digest]struct{})
	}
	clear(l.taken)
	var later []*ticket[Q, R]
	batch := make([]*ticket[Q, R], 0, min(len(l.waiting), l.maxBatch))
	bytes := 0
	for i, t := range l.waiting {
		if len(batch) == l.maxBatch || bytes > maxBatchBytes {
			later = append(later, l.waiting[i:]...)
			break
		}
		if _, twice := l.taken[t.digest]; twice {
			later = append(later, t)
			continue
		}
		l.taken[t.digest] = struct{}{}
		batch = append(batch, t)
		delete(l.shared, t.digest)
		bytes += l.sizeOf(&t.ask)
	}
	l.waiting = later
	l.bytes -= bytes
	sortByDigest(batch)
	return batch
}

func (l *lane[Q, R]) sizeOf(ask *Q) int {
	if l.size == nil {
		return 0
	}
	return l.size(ask)
}

func sortByDigest[Q, R any](batch []*ticket[Q, R]) {
	slices.SortFunc(batch, func(a, b *ticket[Q, R]) int {
		return bytes.Compare(a.digest[:], b.digest[:])
	})
}

// open returns the tickets that have not been answered.
func open[Q, R any](batch []*ticket[Q, R]) []*ticket[Q, R] {
	return slices.DeleteFunc(slices.Clone(batch), func(t *ticket[Q, R]) bool { return t.settled() })
}

// digests returns the digests of a batch as a parameter.
func digests[Q, R any](batch []*ticket[Q, R]) [][]byte {
	return column(batch, func(t *ticket[Q, R]) []byte { return t.digest[:] })
}

// column returns one field of a batch as a parameter.
func column[Q, R, V any](batch []*ticket[Q, R], of func(*ticket[Q, R]) V) []V {
	values := make([]V, len(batch))
	for i, t := range batch {
		values[i] = of(t)
	}
	return values
}

// A group counts the goroutines that Close waits for.
type group struct {
	mu     sync.Mutex
	wg     sync.WaitGroup
	closed bool
}

// join adds one, unless the group is closed.
func (g *group) join() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.wg.Add(1)
	return true
}

func (g *group) leave() { g.wg.Done() }

// close refuses newcomers and waits for those inside.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wg.Wait()
}
