package node

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/redfence/redfence/observe"
)

// loop is the node's one goroutine: it drains what is waiting into one
// pipeline, waits for the answers, delivers them, and starts again.
func (n *Node) loop() {
	defer close(n.done)
	defer n.hangUp()
	for {
		select {
		case <-n.closing:
			n.refuse(n.takeAll(), ErrClosed)
			return
		case <-n.wake:
			n.drain()
		case <-n.probe.C:
			n.tryAgain()
		}
	}
}

// drain sends pipelines until nothing is queued or the node is down.
func (n *Node) drain() {
	for {
		runtime.Gosched() // callers that are about to queue something come along
		ops := n.take()
		if len(ops) == 0 {
			return
		}
		report, err := n.circuit.Allow()
		if err != nil {
			n.refuse(ops, n.Down())
			continue
		}
		err = n.exchange(ops)
		report(err)
		n.judge(err)
	}
}

// tryAgain probes a node that is down or slow.
func (n *Node) tryAgain() {
	report, err := n.circuit.Allow()
	if err != nil { // too early
		n.probe.Reset(n.cfg.OpenFor)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	began := time.Now()
	err = n.connect(ctx)
	if err == nil {
		err = n.ping(ctx)
	}
	n.timed(began)
	report(err)
	n.judge(err)
}

func (n *Node) ping(ctx context.Context) error {
	var err error
	if n.conn != nil {
		err = n.conn.Ping(ctx).Err()
	} else {
		err = n.client.Ping(ctx).Err()
	}
	if err == nil || Answered(err) {
		return nil
	}
	n.hangUp()
	return err
}

// judge follows the breaker after a report. gobreaker calls back under its
// own lock, so its state is read here instead.
func (n *Node) judge(err error) {
	open := n.circuit.State() != gobreaker.StateClosed
	was := n.down.Load() != nil
	if err != nil {
		n.cause = err
	}
	switch {
	case open:
		n.down.Store(&downError{cause: n.cause})
		n.probe.Reset(n.cfg.OpenFor + time.Millisecond)
		n.refuse(n.takeAll(), n.Down())
		if !was {
			n.since = time.Now()
			n.cfg.Observer.Observe(observe.NodeDown{Node: n.addr, Cause: n.cause.Error()})
		}
	case was:
		n.down.Store(nil)
		n.cfg.Observer.Observe(observe.NodeUp{Node: n.addr, After: time.Since(n.since)})
		fallthrough
	case err == nil:
		n.sendLater()
	}
}

// sendLater queues what has waited for an answer of this node, some at a time.
func (n *Node) sendLater() {
	n.mu.Lock()
	some := n.later[:min(len(n.later), deferredAtOnce)]
	if len(some) == 0 {
		n.mu.Unlock()
		return
	}
	for _, op := range some {
		op.state.Store(queued)
	}
	n.queue = append(n.queue, some...)
	n.later = append([]*Op(nil), n.later[len(some):]...)
	n.mu.Unlock()
	n.signal()
}

// take returns what is waiting, at most maxBatch, without what was cancelled.
// The slice is valid until the next take.
func (n *Node) take() []*Op {
	n.mu.Lock()
	ops := n.queue
	n.told = false
	var rest []*Op
	if len(ops) > maxBatch {
		ops, rest = ops[:maxBatch:maxBatch], ops[maxBatch:]
	}
	n.queue = append(n.spare[:0], rest...)
	n.mu.Unlock()
	n.spare = ops
	if len(rest) > 0 {
		n.spare = nil // ops and rest share an array
	}
	return n.claim(ops)
}

func (n *Node) claim(ops []*Op) []*Op {
	live := ops[:0]
	for _, op := range ops {
		if op.state.CompareAndSwap(queued, sent) {
			live = append(live, op)
			continue
		}
		op.To.Reply(op, nil, ErrCancelled)
	}
	if len(live) == 0 && len(ops) > 0 {
		return n.take()
	}
	return live
}

func (n *Node) takeAll() []*Op {
	n.mu.Lock()
	defer n.mu.Unlock()
	ops := n.queue
	n.queue, n.spare, n.told = nil, nil, false
	if n.ended {
		ops = append(ops, n.later...)
		n.later = nil
	}
	return ops
}

// refuse answers commands that were not sent.
func (n *Node) refuse(ops []*Op, err error) {
	if err == nil {
		err = ErrDown
	}
	for _, op := range ops {
		reason := err
		if op.state.Swap(idle) == cancelled {
			reason = ErrCancelled
		}
		op.To.Reply(op, nil, reason)
	}
}

// exchange sends one pipeline and delivers the answers. Its error is what the
// breaker counts: a failure to get answers, not what the answers say.
func (n *Node) exchange(ops []*Op) error {
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Timeout)
	defer cancel()
	began := time.Now()
	n.busyAt.Store(began.UnixNano())
	defer n.timed(began)
	if err := n.connect(ctx); err != nil {
		if isLocal(err) {
			n.refuse(ops, errors.Join(ErrOverloaded, err))
			return ErrOverloaded
		}
		n.refuse(ops, &downError{cause: err})
		return err
	}
	if n.cfg.Finish != nil {
		if last := n.cfg.Finish(n, ops); last != nil {
			ops = append(ops, last)
		}
	}
	err := n.pipeline(ctx, ops)
	if err != nil && ctx.Err() == nil && !isTimeout(err) && !isLocal(err) {
		err = n.again(ctx, ops)
	}
	n.deliver(ops, err)
	return err
}

// timed notes how long the pipeline took. A slow node may be asked for nothing
// any more: a probe shows whether it is quick again.
func (n *Node) timed(began time.Time) {
	n.busyAt.Store(0)
	slow := time.Since(began) > n.slowAfter()
	n.slow.Store(slow)
	if slow {
		n.probe.Reset(n.cfg.OpenFor)
	}
}

// again sends the pipeline once more after its connection broke: the usual
// reason is a connection that was closed while idle.
func (n *Node) again(ctx context.Context, ops []*Op) error {
	for _, op := range ops {
		op.resent = true
	}
	if err := n.connect(ctx); err != nil {
		return err
	}
	return n.pipeline(ctx, ops)
}

// pipeline returns the failure that keeps answers from being trusted, after
// hanging up.
func (n *Node) pipeline(ctx context.Context, ops []*Op) error {
	var pipe redis.Pipeliner
	if n.conn != nil {
		pipe = n.conn.Pipeline()
	} else {
		pipe = n.client.Pipeline()
	}
	for _, op := range ops {
		if b, ok := op.To.(Binder); ok {
			b.Bind(op)
		}
		op.cmd = redis.NewCmd(ctx, op.Args...)
		_ = pipe.Process(ctx, op.cmd) // queues; errors come with Exec
	}
	_, err := pipe.Exec(ctx)
	if err == nil || err == redis.Nil {
		return nil
	}
	// Exec reports the first error, which may be an answer of the server. When
	// no command shows one, the connection was gone before anything was sent.
	shown := false
	for _, op := range ops {
		switch err := op.cmd.Err(); {
		case err == nil:
		case err == redis.Nil, Answered(err):
			shown = true
		default:
			n.hangUp()
			return err
		}
	}
	if !shown {
		n.hangUp()
		return err
	}
	return nil
}
