package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a store that answers each line with itself and tells what it got.
type echo struct {
	listener net.Listener
	got      chan string
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{listener: listener, got: make(chan string, 100)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go e.serve(conn)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return e
}

func (e *echo) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		e.got <- lines.Text()
		if _, err := fmt.Fprintln(conn, lines.Text()); err != nil {
			return
		}
	}
}

func newLink(t *testing.T, target string) *Link {
	t.Helper()
	l, err := New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dial(t *testing.T, l *Link) *client {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t: t, conn: conn, in: bufio.NewReader(conn)}
}

// ask sends a line and waits for the answer.
func (c *client) ask(line string, limit time.Duration) (string, error) {
	c.t.Helper()
	if err := c.conn.SetDeadline(time.Now().Add(limit)); err != nil {
		c.t.Fatal(err)
	}
	if _, err := fmt.Fprintln(c.conn, line); err != nil {
		return "", err
	}
	text, err := c.in.ReadString('\n')
	return strings.TrimSpace(text), err
}

// refused checks that a new connection is reset, at once or at its first use.
func refused(t *testing.T, l *Link) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr())
	if err == nil {
		c := &client{t: t, conn: conn, in: bufio.NewReader(conn)}
		_, err = c.ask("hello", 5*time.Second)
		_ = conn.Close()
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("new connection: %v, want a reset", err)
	}
}

func (c *client) works(line string) {
	c.t.Helper()
	if got, err := c.ask(line, 5*time.Second); err != nil || got != line {
		c.t.Fatalf("asked %q, got %q, %v", line, got, err)
	}
}

func TestGoodLinkPasses(t *testing.T) {
	l := newLink(t, newEcho(t).listener.Addr().String())
	c := dial(t, l)
	c.works("one")
	c.works("two")
}

func TestRefuseCutsPresentAndNewConnections(t *testing.T) {
	l := newLink(t, newEcho(t).listener.Addr().String())
	before := dial(t, l)
	before.works("one")
	l.Set(Faults{Refuse: true})
	if _, err := before.ask("two", 5*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("present connection: %v, want a reset", err)
	}
	refused(t, l)
	l.Set(Faults{})
	dial(t, l).works("three")
}

func TestHeldRequestsArriveWhenTheLinkHeals(t *testing.T) {
	store := newEcho(t)
	l := newLink(t, store.listener.Addr().String())
	c := dial(t, l)
	c.works("one")
	<-store.got
	l.Set(Faults{HoldRequests: true})
	if _, err := c.ask("two", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("held link: %v, want silence", err)
	}
	select {
	case got := <-store.got:
		t.Errorf("the store got %q through a held link", got)
	default:
	}
	l.Set(Faults{})
	if got := <-store.got; got != "two" {
		t.Errorf("after healing the store got %q", got)
	}
}

func TestHeldRepliesHaveTakenEffect(t *testing.T) {
	store := newEcho(t)
	l := newLink(t, store.listener.Addr().String())
	c := dial(t, l)
	l.Set(Faults{HoldReplies: true})
	if _, err := c.ask("one", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("held link: %v, want silence", err)
	}
	if got := <-store.got; got != "one" {
		t.Errorf("the store got %q", got)
	}
}

func TestCutReplyComesAfterTheEffect(t *testing.T) {
	store := newEcho(t)
	l := newLink(t, store.listener.Addr().String())
	c := dial(t, l)
	l.CutReplies(1)
	if _, err := c.ask("one", 5*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("cut reply: %v, want a reset", err)
	}
	if got := <-store.got; got != "one" {
		t.Errorf("the store got %q", got)
	}
	dial(t, l).works("two")
}

func TestDelayAndThrottleTakeTime(t *testing.T) {
	l := newLink(t, newEcho(t).listener.Addr().String())
	c := dial(t, l)
	c.works("one")
	for name, f := range map[string]Faults{"delay": {Delay: 20 * time.Millisecond}, "throttle": {BytesPerSecond: 100}} {
		l.Set(f)
		began := time.Now()
		c.works("two")
		if took := time.Since(began); took < 40*time.Millisecond {
			t.Errorf("%s: took %v", name, took)
		}
	}
}

func TestDeadTargetLooksLikeAReset(t *testing.T) {
	store := newEcho(t)
	l := newLink(t, store.listener.Addr().String())
	_ = store.listener.Close()
	refused(t, l)
}

func TestLinkCountsWhatItHits(t *testing.T) {
	l := newLink(t, newEcho(t).listener.Addr().String())
	c := dial(t, l)
	c.works("one")
	l.Set(Faults{Delay: time.Millisecond})
	c.works("two")
	if got := l.Seen(); got.Delayed < 2 {
		t.Errorf("a delay: %+v", got)
	}
	l.Set(Faults{HoldReplies: true})
	if text, err := c.ask("three", 50*time.Millisecond); err == nil {
		t.Errorf("%q passed", text)
	}
	if got := l.Seen(); got.Held != 1 {
		t.Errorf("a reply that is held: %+v", got)
	}
	l.Set(Faults{Refuse: true})
	if got := l.Seen(); got.Refused == 0 {
		t.Errorf("a connection that is cut: %+v", got)
	}
	l.Set(Faults{})
	if got := l.Seen(); got != (Seen{}) {
		t.Errorf("a good link hits nothing: %+v", got)
	}
}
