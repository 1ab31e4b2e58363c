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

	mu     sync.Mutex // guards queue, told, later, ended
	queue  []*Op
	told   bool // the loop has been told of the queue
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
func (n *Node) Send(op *Op) { n.enqueue(op, true) }

// enqueue queues a command; the loop is told of it now or by whoever is next.
func (n *Node) enqueue(op *Op, tell bool) {
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
	tell = tell && !n.told // once for each queue that the loop takes
	n.told = n.told || tell
	n.mu.Unlock()
	if tell {
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
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(ErrCancelled, err)
	}
	return n.send(&Pending{op: Op{Args: args}}).Wait(ctx)
}

// Eval is Do for a script.
func (n *Node) Eval(ctx context.Context, s *Script, keys []string, argv ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, errors.Join(ErrCancelled, err)
	}
	return n.send(&Pending{op: Op{Args: s.Command(keys, argv...), Script: s}}).Wait(ctx)
}

func (n *Node) send(w *Pending) *Pending {
	w.done = make(chan struct{})
	w.op.To = w
	n.Send(&w.op)
	return w
}

// Begin queues a command, to be sent together with what the caller sends to the
// node next, or when it waits.
func (n *Node) Begin(args ...any) *Pending {
	w := &Pending{held: n, op: Op{Args: args}, done: make(chan struct{})}
	w.op.To = w
	n.enqueue(&w.op, false)
	return w
}

// A Pending is a command whose answer one caller will wait for.
type Pending struct {
	held  *Node // that has not been told of it; nil: it has
	op    Op
	done  chan struct{}
	value any
	err   error
}

// Reply implements Receiver.
func (w *Pending) Reply(_ *Op, value any, err error) {
	w.value, w.err = value, err
	close(w.done)
}

// Wait waits for the answer or for ctx. When ctx ends first the command may
// still be executed, unless Unsent(err).
func (w *Pending) Wait(ctx context.Context) (any, error) {
	if w.held != nil && w.op.state.Load() == queued {
		w.held.signal()
	}
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
