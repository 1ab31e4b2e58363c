package gateway

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Slow and huge requests end early, before they reach the upstream.
func TestLimits(t *testing.T) {
	up := upstream(t, func(http.ResponseWriter, *http.Request) { t.Error("reached the upstream") })
	g := start(t, Config{Routes: []Route{route(up.URL)}})
	if got := post(t, g.URL, strings.Repeat("x", 2<<20), key); got.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a huge body: %d", got.StatusCode)
	}
	conn, err := net.Dial("tcp", g.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Huge: %s\r\n\r\n", strings.Repeat("x", 256<<10))
	answer := make([]byte, 12)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "HTTP/1.1 431" {
		t.Errorf("a huge header: %q, %v", answer, err)
	}
}

// A client that sends its header byte by byte is cut off.
func TestSlowLoris(t *testing.T) {
	up := upstream(t, func(http.ResponseWriter, *http.Request) { t.Error("reached the upstream") })
	h, err := New(Config{Engine: newEngine(t), Routes: []Route{route(up.URL)}, Transport: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	s := NewServer(h, 0)
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 5*time.Minute || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("a time-out or limit is not set: %+v", s)
	}
	s.ReadHeaderTimeout = 200 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve(listener)
	defer s.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("the connection stays open: %v", err)
	}
}
