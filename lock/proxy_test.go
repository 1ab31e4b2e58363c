package lock

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/testenv"
)

// proxy stands in front of one node, for one client.
type proxy struct {
	listener net.Listener
	target   string
	client   *redis.Client

	mu     sync.Mutex
	closed bool
	cut    bool // refuse and drop connections
	hole   bool // swallow what is sent
	jitter time.Duration
	delay  time.Duration
	conns  map[net.Conn]struct{}
	done   sync.WaitGroup
}

// links puts a proxy in front of each server.
func links(t testing.TB, servers []*testenv.RedisServer) ([]*proxy, []redis.UniversalClient) {
	t.Helper()
	list := make([]*proxy, len(servers))
	clients := make([]redis.UniversalClient, len(servers))
	for i, s := range servers {
		list[i] = newProxy(t, s.Addr())
		clients[i] = list[i].client
	}
	return list, clients
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	o := &redis.Options{Addr: listener.Addr().String()}
	forNode(o)
	l.client = redis.NewClient(o)
	l.done.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

func (l *proxy) close() {
	_ = l.client.Close()
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.drop()
	l.done.Wait()
}

// drop breaks every connection.
func (l *proxy) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Close()
	}
}

// set changes what the proxy does.
func (l *proxy) set(change func(*proxy)) {
	l.mu.Lock()
	change(l)
	cut := l.cut
	l.mu.Unlock()
	if cut {
		l.drop()
	}
}

func (l *proxy) setCut(on bool)  { l.set(func(s *proxy) { s.cut = on }) }
func (l *proxy) setHole(on bool) { l.set(func(s *proxy) { s.hole = on }) }

func (l *proxy) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !l.keep(client, server) {
			continue
		}
		l.done.Go(func() { l.pump(server, client, true) })
		l.done.Go(func() { l.pump(client, server, false) })
	}
}

func (l *proxy) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.cut || l.closed {
			_ = c.Close()
			continue
		}
		l.conns[c] = struct{}{}
	}
	return !l.cut && !l.closed
}

// pump carries bytes; requests are delayed, and swallowed in a hole, as
// answers are.
func (l *proxy) pump(to io.WriteCloser, from net.Conn, request bool) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		l.mu.Lock()
		hole, wait := l.hole, l.delay
		if l.jitter > 0 {
			wait += rand.N(l.jitter)
		}
		l.mu.Unlock()
		if hole {
			continue
		}
		if request {
			time.Sleep(wait)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
