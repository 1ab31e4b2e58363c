// Package proxy is the link between one engine instance and one store: a TCP
// forwarder that can fail in the ways in which networks do.
package proxy

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Faults is how a link treats what passes. The zero value is a good link.
type Faults struct {
	// Refuse resets connections, present and new.
	Refuse bool
	// HoldRequests keeps what the instance sends until it is lifted, as a
	// network that loses every packet of that direction does.
	HoldRequests bool
	// HoldReplies does the same to what the store sends.
	HoldReplies bool
	// Delay is added to everything that passes, in each direction.
	Delay time.Duration
	// BytesPerSecond limits replies. 0: no limit.
	BytesPerSecond int
}

// Seen counts what the faults of a link have hit since they were set.
type Seen struct {
	// Refused connections, or ones that were cut.
	Refused int
	// Held and Delayed pieces of data.
	Held, Delayed int
	// Cut replies.
	Cut int
}

// Link forwards connections from its own address to a target. It is safe for
// concurrent use.
type Link struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu      sync.Mutex // guards what follows
	faults  Faults
	changed chan struct{} // closed at the next change of faults
	seen    Seen
	cuts    int // replies that are still to be cut off
	conns   map[net.Conn]struct{}
	closed  bool
}

// New starts a link to the target on a free loopback port.
func New(target string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	l := &Link{listener: listener, target: target, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	l.group.Go(l.accept)
	return l, nil
}

// Addr returns host:port of the link.
func (l *Link) Addr() string { return l.listener.Addr().String() }

// Set changes how the link behaves from now on.
func (l *Link) Set(f Faults) {
	l.mu.Lock()
	l.faults, l.seen = f, Seen{}
	if f.Refuse {
		l.seen.Refused = len(l.conns)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	if f.Refuse {
		l.Reset()
	}
}

// CutReplies resets the connection at each of the next n replies, after the
// store has sent it and before the instance sees it: the command took effect.
func (l *Link) CutReplies(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cuts = n
}

// Cuts returns how many replies are still to be cut off.
func (l *Link) Cuts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cuts
}

// Seen returns what the faults have hit since they were set.
func (l *Link) Seen() Seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// Reset cuts every connection.
func (l *Link) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		abort(conn)
	}
}

// Close cuts every connection and ends the link.
func (l *Link) Close() error {
	l.mu.Lock()
	l.closed = true
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	err := l.listener.Close()
	l.Reset()
	l.group.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		l.group.Go(func() { l.forward(conn) })
	}
}

// forward joins a connection to one of the target's until either ends.
func (l *Link) forward(client net.Conn) {
	defer abort(client)
	if !l.keep(client) {
		return
	}
	defer l.drop(client)
	server, err := net.DialTimeout("tcp", l.target, 5*time.Second)
	if err != nil {
		return // the instance sees a reset, as from a host whose process is gone
	}
	defer abort(server)
	if !l.keep(server) {
		return
	}
	defer l.drop(server)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.pump(server, client, false)
	}()
	l.pump(client, server, true)
	<-done
}

// pump copies one direction; when it ends, both connections do.
func (l *Link) pump(to, from net.Conn, replies bool) {
	defer abort(to)
	defer abort(from)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if !l.pass(n, replies) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// pass waits as the faults say and reports whether the bytes may go on.
func (l *Link) pass(n int, replies bool) bool {
	if replies && l.cut() {
		return false
	}
	counted := false
	for {
		l.mu.Lock()
		f, changed, closed := l.faults, l.changed, l.closed
		l.mu.Unlock()
		held := (replies && f.HoldReplies) || (!replies && f.HoldRequests)
		if closed || f.Refuse {
			return false
		}
		if !held {
			wait := waitFor(f, n, replies)
			if wait > 0 {
				l.count(func(s *Seen) { s.Delayed++ })
			}
			return sleep(wait, changed)
		}
		if !counted {
			counted = true
			l.count(func(s *Seen) { s.Held++ })
		}
		<-changed
	}
}

func (l *Link) count(what func(*Seen)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	what(&l.seen)
}

func waitFor(f Faults, n int, replies bool) time.Duration {
	wait := f.Delay
	if replies && f.BytesPerSecond > 0 {
		wait += time.Duration(n) * time.Second / time.Duration(f.BytesPerSecond)
	}
	return wait
}

// sleep waits, but not past a change of the faults.
func sleep(d time.Duration, changed <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	}
	return true
}

func (l *Link) cut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cuts == 0 {
		return false
	}
	l.cuts--
	l.seen.Cut++
	return true
}

func (l *Link) keep(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.faults.Refuse {
		l.seen.Refused++
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

func (l *Link) drop(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, conn)
}

// abort closes a connection so that the other side sees a reset.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
