package lock

import (
	"context"
	"sync"
)

// queues line up the waiters of this process, first come, first served: only
// the first of a name talks to Redis.
type queues struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the waiters of one name. The first has its turn.
type line struct {
	turns []chan struct{} // closed when it is one's turn
	// wake is signalled when this process has released the lock.
	wake chan struct{}
}

func newQueues() *queues { return &queues{lines: map[string]*line{}} }

// join waits for one's turn at name, or for ctx. After a nil error leave must
// be called.
func (q *queues) join(ctx context.Context, name string) (l *line, leave func(), err error) {
	turn := make(chan struct{})
	q.mu.Lock()
	l = q.lines[name]
	if l == nil {
		l = &line{wake: make(chan struct{}, 1)}
		q.lines[name] = l
	}
	l.turns = append(l.turns, turn)
	if len(l.turns) == 1 {
		close(turn)
	}
	q.mu.Unlock()
	select {
	case <-turn:
		return l, func() { q.leave(name, l, turn) }, nil
	case <-ctx.Done():
		q.leave(name, l, turn)
		return nil, nil, ctx.Err()
	}
}

func (q *queues) leave(name string, l *line, turn chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, t := range l.turns {
		if t != turn {
			continue
		}
		l.turns = append(l.turns[:i], l.turns[i+1:]...)
		if i == 0 && len(l.turns) > 0 {
			close(l.turns[0])
		}
		break
	}
	if len(l.turns) == 0 {
		delete(q.lines, name)
	}
}

// released tells the first waiter of name that this process has released it.
func (q *queues) released(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[name]; l != nil {
		signal(l.wake)
	}
}
