package redfence

import (
	"context"
	"sync"

	"github.com/redfence/redfence/fallback"
)

// queues let the waiters for one key of this process through one by one, so
// that only one of them asks the stores.
type queues struct {
	mu    sync.Mutex
	byKey map[fallback.Digest]*turn
}

type turn struct {
	free    chan struct{} // holds one value while nobody has the turn
	waiters int
}

// join waits for its turn. leave gives it to the next.
func (q *queues) join(ctx context.Context, d fallback.Digest) (leave func(), err error) {
	q.mu.Lock()
	t := q.byKey[d]
	if t == nil {
		if q.byKey == nil {
			q.byKey = make(map[fallback.Digest]*turn)
		}
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		q.byKey[d] = t
	}
	t.waiters++
	q.mu.Unlock()
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; q.leave(d, t) }, nil
	case <-ctx.Done():
		q.leave(d, t)
		return nil, ctx.Err()
	}
}

func (q *queues) leave(d fallback.Digest, t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.waiters--; t.waiters == 0 {
		delete(q.byKey, d)
	}
}
