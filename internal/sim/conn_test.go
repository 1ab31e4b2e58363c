package sim

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A conn is one connection of an engine to a node. It has no goroutine: what is
// written takes effect at the node, and is answered, by timers, in order.
type conn struct {
	in    *instance
	n     *node
	index int // of the node
	hints bool

	order   sync.Mutex // of effects
	queue   []packet
	last    time.Time // when the last packet of the queue arrives
	partial string

	mu       sync.Mutex
	out      []byte
	replied  time.Time // when the last reply is there
	pending  []string  // replies on their way
	mute     bool      // nothing comes back any more
	deadline time.Time
	ready    chan struct{} // capacity 1
	closed   chan struct{}
	closing  sync.Once
}

type packet struct {
	text string
	fate fate
}

var errReset = errors.New("connection reset by the simulation")

// dial connects an engine to a node, or does not. Connections for hints
// (subscriptions) are dialled without the time-out of the others, or with a
// longer one. The client holds a mutex while it sets one up and while it sends
// on it, and who waits for a mutex stops the clock of the bubble: so nothing on
// them takes time.
func (in *instance) dial(ctx context.Context, index int) (net.Conn, error) {
	ends, bounded := ctx.Deadline()
	hints := !bounded || time.Until(ends) > dialTimeout
	if !hints {
		in.stand()
	}
	f := in.redisFate("dial", index)
	switch kind := in.onWay(index, f.kind); {
	case kind == refused, kind == lost, hints && (kind == silent || in.isFrozen() > 0):
		return nil, errReset
	case kind == silent:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c := &conn{in: in, n: in.w.nodes[index], index: index, hints: hints, ready: make(chan struct{}, 1), closed: make(chan struct{})}
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	c.n.conns[c] = true
	return c, nil
}

// Write sends a packet.
func (c *conn) Write(b []byte) (int, error) {
	if !c.hints {
		c.in.stand()
	}
	if c.isClosed() {
		return 0, net.ErrClosed
	}
	f := c.in.redisFate("packet", c.index)
	kind := c.in.onWay(c.index, f.kind)
	if kind == refused || c.hints && (kind != fine || c.in.isFrozen() > 0) {
		c.reset()
		return 0, errReset
	}
	if c.hints {
		f = fate{kind: fine}
	}
	c.send(packet{string(b), f})
	return len(b), nil
}

func (c *conn) send(p packet) {
	c.order.Lock()
	at := time.Now().Add(p.fate.before)
	if at.Before(c.last) {
		at = c.last
	}
	c.last = at
	c.queue = append(c.queue, p)
	c.order.Unlock()
	if wait := time.Until(at); wait > 0 {
		time.AfterFunc(wait, c.arrive)
		return
	}
	c.arrive()
}

// arrive lets the first packet of the queue take effect, also when the
// connection has been closed meanwhile.
func (c *conn) arrive() {
	c.order.Lock()
	defer c.order.Unlock()
	p := c.queue[0]
	c.queue = c.queue[1:]
	kind := c.in.onWay(c.index, p.fate.kind)
	switch kind {
	case refused:
		c.reset()
		return
	case silent:
		c.silence()
	}
	if c.isMute() {
		return
	}
	c.partial += p.text
	var replies strings.Builder
	for {
		args, rest, ok := parse(c.partial)
		if !ok {
			break
		}
		c.partial = rest
		replies.WriteString(c.n.run(c, args))
	}
	if kind == lost {
		c.reset()
		return
	}
	c.answer(replies.String(), p.fate.after)
}

// parse takes one command off a text, if all of it is there.
func parse(text string) (args []string, rest string, ok bool) {
	head, rest, ok := strings.Cut(text, "\r\n")
	if !ok || head[0] != '*' {
		return nil, "", false
	}
	n, err := strconv.Atoi(head[1:])
	if err != nil {
		return nil, "", false
	}
	for range n {
		head, rest, ok = strings.Cut(rest, "\r\n")
		if !ok {
			return nil, "", false
		}
		size, err := strconv.Atoi(head[1:])
		if err != nil || len(rest) < size+2 {
			return nil, "", false
		}
		args = append(args, rest[:size])
		rest = rest[size+2:]
	}
	return args, rest, n > 0
}

// answer sends replies back, after those before them.
func (c *conn) answer(text string, after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(after)
	if at.Before(c.replied) {
		at = c.replied
	}
	c.replied = at
	if !at.After(time.Now()) && len(c.pending) == 0 {
		c.out = append(c.out, text...)
		c.wake()
		return
	}
	c.pending = append(c.pending, text)
	time.AfterFunc(time.Until(at), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.out = append(c.out, c.pending[0]...)
		c.pending = c.pending[1:]
		c.wake()
	})
}

// push sends what nobody has asked for.
func (c *conn) push(text string) {
	if !c.isMute() {
		c.answer(text, 0)
	}
}

// Read waits for replies until the deadline.
func (c *conn) Read(b []byte) (int, error) {
	for {
		if !c.hints {
			c.in.stand()
		}
		n, deadline := c.take(b)
		if n > 0 {
			return n, nil
		}
		var expired <-chan time.Time
		if !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop()
			expired = timer.C
		}
		select {
		case <-c.ready:
		case <-c.closed:
			return 0, io.EOF
		case <-expired:
			return 0, os.ErrDeadlineExceeded
		}
	}
}

func (c *conn) take(b []byte) (int, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(b, c.out)
	c.out = c.out[n:]
	return n, c.deadline
}

func (c *conn) wake() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

func (c *conn) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = true
}

func (c *conn) isMute() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mute
}

func (c *conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func (c *conn) reset() { c.closing.Do(func() { close(c.closed) }) }

// Close is the client's.
func (c *conn) Close() error {
	c.reset()
	c.n.forget(c)
	return nil
}

// SetDeadline and the next two hold for what is read; writing never waits.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return &net.TCPAddr{} }
