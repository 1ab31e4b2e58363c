package main

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A slowLink passes connections on to a node, each way as late as it is told.
// It is safe for concurrent use.
type slowLink struct {
	listener net.Listener
	target   string
	delay    atomic.Int64 // nanoseconds, each way
	done     sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func newSlowLink(target string) (*slowLink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &slowLink{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	l.done.Go(l.accept)
	return l, nil
}

func (l *slowLink) addr() string { return l.listener.Addr().String() }

// slow sets the delay of what arrives from now on.
func (l *slowLink) slow(d time.Duration) { l.delay.Store(int64(d)) }

func (l *slowLink) accept() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		if !l.keep(near, far) {
			return
		}
		l.done.Go(func() { l.pass(far, near) })
		l.done.Go(func() { l.pass(near, far) })
	}
}

// keep remembers connections to close; false when the link is closed already.
func (l *slowLink) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.closed {
			_ = c.Close()
		}
		l.conns[c] = struct{}{}
	}
	return !l.closed
}

// late is what has arrived, and when it is due on the other side.
type late struct {
	due  time.Time
	data []byte
}

// pass copies from one side to the other. Reading goes on while earlier data
// waits, so that the delay is one of time and not of throughput.
func (l *slowLink) pass(to, from net.Conn) {
	waiting := make(chan late, 1024)
	l.done.Go(func() {
		defer to.Close()
		for next := range waiting {
			time.Sleep(time.Until(next.due))
			if _, err := to.Write(next.data); err != nil {
				_ = from.Close() // ends the reader, which ends this loop
			}
		}
	})
	defer close(waiting)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			due := time.Now().Add(time.Duration(l.delay.Load()))
			waiting <- late{due, append([]byte(nil), buffer[:n]...)}
		}
		if err != nil {
			return
		}
	}
}

// close ends all connections and waits for them.
func (l *slowLink) close() error {
	err := l.listener.Close()
	l.mu.Lock()
	l.closed = true
	for c := range l.conns {
		_ = c.Close() // may have ended by itself
	}
	l.mu.Unlock()
	l.done.Wait()
	if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
