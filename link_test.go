package redfence

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A link is the way from one engine to one store. It can be cut, slowed down
// and watched.
type link struct {
	mu      sync.Mutex
	cut     bool
	jitter  time.Duration
	onWrite func([]byte)
	conns   map[net.Conn]struct{}
}

var errCut = errors.New("link cut by the test")

func (l *link) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if l.isCut() {
		return nil, errCut
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		l.conns = make(map[net.Conn]struct{})
	}
	l.conns[conn] = struct{}{}
	return &linkConn{Conn: conn, link: l}, nil
}

func (l *link) isCut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut
}

// Cut closes every connection and refuses new ones until Heal.
func (l *link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for conn := range l.conns {
		conn.Close()
	}
	clear(l.conns)
}

func (l *link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
}

// Jitter delays each write by up to d.
func (l *link) Jitter(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jitter = d
}

// OnWrite calls f with whatever is about to be sent; nil ends it.
func (l *link) OnWrite(f func([]byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onWrite = f
}

type linkConn struct {
	net.Conn
	link *link
}

func (c *linkConn) Write(b []byte) (int, error) {
	c.link.mu.Lock()
	jitter, onWrite := c.link.jitter, c.link.onWrite
	c.link.mu.Unlock()
	if jitter > 0 {
		time.Sleep(rand.N(jitter))
	}
	if onWrite != nil {
		onWrite(b)
	}
	return c.Conn.Write(b)
}

func (c *linkConn) Close() error {
	c.link.mu.Lock()
	delete(c.link.conns, c.Conn)
	c.link.mu.Unlock()
	return c.Conn.Close()
}
