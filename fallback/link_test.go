package fallback_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// A link is a proxy in front of Postgres that can lose or hold what passes.
type link struct {
	t       *testing.T
	server  string
	address string

	mu   sync.Mutex
	mute bool // server to client: swallow
	hold bool // client to server: keep for later
	// from, when set, finds where in what a client says the holding begins;
	// negative: not in this.
	from    func(said []byte) int
	held    []func()
	conns   []net.Conn
	answers int // bytes that the server sent on connections whose client is gone
}

// newLink returns a link to the server, and the server's URL through it.
func newLink(t *testing.T, serverURL string) (*link, string) {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &link{t: t, server: u.Host, address: l.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", k.server)
			if err != nil {
				client.Close()
				continue
			}
			k.mu.Lock()
			k.conns = append(k.conns, client, server)
			k.mu.Unlock()
			wg.Go(func() { k.up(client, server) })
			wg.Go(func() { k.down(server, client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		k.cut()
		wg.Wait()
	})
	u.Host = k.address
	return k, u.String()
}

// isCancel reports whether a client asks the server to cancel what another
// connection does. Such requests come some time after a connection was lost;
// the link lets none through, so that what was sent takes its course.
func isCancel(said []byte) bool {
	return len(said) == 16 && bytes.Equal(said[4:8], []byte{0x04, 0xd2, 0x16, 0x2e})
}

// up passes what the client says, or keeps it.
func (k *link) up(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	late := false // the rest of what this client says is for later
	kept := false // the server is to hear it after the client has gone
	for {
		n, err := client.Read(buf)
		said := append([]byte(nil), buf[:n]...)
		if isCancel(said) {
			server.Close()
			return
		}
		k.mu.Lock()
		if k.from != nil {
			if at := k.from(said); at >= 0 {
				server.Write(said[:at])
				said, k.from, late = said[at:], nil, true
			}
		}
		if (k.hold || late) && n > 0 {
			k.held, kept = append(k.held, func() { server.Write(said) }), true
		} else if n > 0 {
			server.Write(said)
		}
		k.mu.Unlock()
		if err != nil {
			if !kept {
				server.Close()
			}
			return
		}
	}
}

// down passes what the server says, or swallows it.
func (k *link) down(server, client net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		k.mu.Lock()
		if k.mute {
			k.answers += n
		} else if _, werr := client.Write(buf[:n]); werr != nil {
			k.answers += n
		}
		k.mu.Unlock()
		if err != nil {
			client.Close()
			return
		}
	}
}

// losing makes the link swallow every answer.
func (k *link) losing(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mute, k.answers = on, 0
}

// holding makes the link keep what clients say.
func (k *link) holding(on bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hold = on
}

// holdingFrom makes the link keep what one client says from where the
// function finds it.
func (k *link) holdingFrom(from func(said []byte) int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.from = from
}

// deliver sends what was kept.
func (k *link) deliver() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, send := range k.held {
		send()
	}
	k.held = nil
}

// cutClients closes the clients' ends only: what was kept can be delivered.
func (k *link) cutClients() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := 0; i < len(k.conns); i += 2 {
		k.conns[i].Close()
	}
}

// cut closes every connection.
func (k *link) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		c.Close()
	}
}

func (k *link) answered() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.answers
}

func (k *link) keeping() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.held)
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
