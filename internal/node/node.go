package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// A Node is one Redis node.
type Node struct {
	cfg    Config
	index  int
	addr   string
	client redis.UniversalClient

	mu     sync.Mutex // guards queue, later, ended
	queue  []*Op
	later  []*Op
	ended  bool
	spare  []*Op // the loop's; swapped with queue
	down   atomic.Pointer[downError]
	busyAt atomic.Int64 // when the pipeline in flight was sent, 0: none
	slow   atomic.Bool  // the last pipeline took long

	wake    chan struct{}
	closing chan struct{}
	done    chan struct{}

	// The loop's own.
	conn    *redis.Conn // nil: none, or a client that gives none away
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	probe   *time.Timer
	cause   error // of the last failure
	since   time.Time
}

// downError is what callers get while the breaker is open.
type downError struct{ cause error }

func (e *downError) Error() string   { return ErrDown.Error() + ": " + e.cause.Error() }
func (e *downError) Unwrap() []error { return []error{ErrDown, e.cause} }

func newNode(index int, client redis.UniversalClient, cfg Config) *Node {
	n := &Node{
		cfg: cfg, index: index, addr: settingsOf(client).addr, client: client,
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
		probe:   time.NewTimer(time.Hour),
	}
	n.probe.Stop()
	n.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:        n.addr,
		MaxRequests: 1,
		Timeout:     cfg.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresToOpen },
		IsExcluded:  func(err error) bool { return errors.Is(err, ErrOverloaded) },
	})
	go n.loop()
	return n
}

// Index returns the node's place in its set.
func (n *Node) Index() int { return n.index }

// Addr returns the node's address, for people.
func (n *Node) Addr() string { return n.addr }

// Client returns the client, for commands that are too large or too slow for
// the shared pipeline.
func (n *Node) Client() redis.UniversalClient { return n.client }

// Timeout returns the deadline of one pipeline.
func (n *Node) Timeout() time.Duration { return n.cfg.Timeout }

// Down returns why the node's breaker is open, nil when it is closed.
func (n *Node) Down() error {
	if d := n.down.Load(); d != nil {
		return d
	}
	return nil
}

// Send queues a command. It does not block, and it does not depend on any
// context: a caller that loses interest calls Op.Cancel. The answer, or the
// reason why there is none, goes to op.To.
func (n *Node) Send(op *Op) {
	if d := n.down.Load(); d != nil {
		op.To.Reply(op, nil, d)
		return
	}
	op.state.Store(queued)
	n.mu.Lock()
	if n.ended || len(n.queue) >= n.cfg.Queue {
		ended := n.ended
		n.mu.Unlock()
		op.state.Store(idle)
		op.To.Reply(op, nil, n.refusal(ended))
		return
	}
	n.queue = append(n.queue, op)
	first := len(n.queue) == 1
	n.mu.Unlock()
	if first {
		n.signal()
	}
}

// refusal tells a full queue of a node that answers (this process asks too
// much) from one that has piled up behind a node that does not.
func (n *Node) refusal(ended bool) error {
	if ended {
		return ErrClosed
	}
	if d := n.busyFor(); d > n.cfg.Timeout/4 {
		return &downError{cause: errors.New("no answer for " + d.Round(time.Millisecond).String())}
	}
	return ErrOverloaded
}

// busyFor is how long the pipeline in flight has been waiting; 0: none is.
func (n *Node) busyFor() time.Duration {
	at := n.busyAt.Load()
	if at == 0 {
		return 0
	}
	return time.Since(time.Unix(0, at))
}

// Prompt reports whether the node can be expected to answer at once: it is not
// down, and neither its last pipeline nor the one in flight has taken longer
// than an eighth of Timeout.
func (n *Node) Prompt() bool {
	return n.down.Load() == nil && !n.slow.Load() && n.busyFor() <= n.slowAfter()
}

func (n *Node) slowAfter() time.Duration { return n.cfg.Timeout / 8 }

// Later queues a command that can wait until the node answers again: it is
// sent after the next pipeline that succeeds. When too many are kept, the
// oldest is dropped with ErrDropped.
func (n *Node) Later(op *Op) {
	var dropped *Op
	n.mu.Lock()
	if n.ended {
		n.mu.Unlock()
		op.To.Reply(op, nil, ErrClosed)
		return
	}
	if len(n.later) >= maxDeferred {
		dropped, n.later = n.later[0], n.later[1:]
	}
	n.later = append(n.later, op)
	n.mu.Unlock()
	if dropped != nil {
		dropped.To.Reply(dropped, nil, ErrDropped)
	}
}

func (n *Node) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *Node) close() {
	n.mu.Lock()
	first := !n.ended
	n.ended = true
	n.mu.Unlock()
	if first {
		close(n.closing)
	}
}

// Do sends one command and waits for its answer or for ctx. When ctx ends
// first the command may still be executed, unless Unsent(err).
func (n *Node) Do(ctx context.Context, args ...any) (any, error) {
	return n.wait(ctx, &waiter{op: Op{Args: args}})
}

// Eval is Do for a script.
func (n *Node) Eval(ctx context.Context, s *Script, keys []string, argv ...any) (any, error) {
	return n.wait(ctx, &waiter{op: Op{Args: s.Command(keys, argv...), Script: s}})
}

type waiter struct {
	op    Op
	done  chan struct{}
	value any
	err   error
}

func (w *waiter) Reply(_ *Op, value any, err error) {
	w.value, w.err = value, err
	close(w.done)
}

func (n *Node) wait(ctx context.Context, w *waiter) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(ErrCancelled, err)
	}
	w.done = make(chan struct{})
	w.op.To = w
	n.Send(&w.op)
	select {
	case <-w.done:
		return w.value, w.err
	case <-ctx.Done():
		if w.op.Cancel() {
			return nil, errors.Join(ErrCancelled, ctx.Err())
		}
		return nil, ctx.Err()
	}
}
