package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redfence/redfence/gateway"
)

// longestDemo bounds how long a demo request may ask to take.
const longestDemo = 10 * time.Second

// demoUpstream is the service behind `serve --demo`. It logs each request that
// reaches it, which is each real execution.
type demoUpstream struct {
	out    io.Writer
	runs   atomic.Int64
	server *http.Server
	addr   string
}

// startDemoUpstream serves on a free port of the loopback interface.
func startDemoUpstream(out io.Writer) (*demoUpstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo upstream: %w", err)
	}
	d := &demoUpstream{out: out, addr: "http://" + listener.Addr().String()}
	d.server = gateway.NewServer(d, 0)
	go func() {
		if err := d.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(out, "demo upstream:", err)
		}
	}()
	return d, nil
}

// ServeHTTP answers with a number that tells one execution from another.
// ?sleep=2s makes it take as long, ?status=500 makes it fail.
func (d *demoUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // the client has gone
	}
	run := d.runs.Add(1)
	fmt.Fprintf(d.out, "demo upstream: execution %d: %s %s, key %q, fence %s\n",
		run, r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Get("Redfence-Fence"))
	if pause, err := time.ParseDuration(r.URL.Query().Get("sleep")); err == nil {
		select {
		case <-time.After(min(pause, longestDemo)):
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(statusOf(r))
	_ = json.NewEncoder(w).Encode(map[string]any{"execution": run, "received": string(body)}) // the client may be gone
}

func statusOf(r *http.Request) int {
	var status int
	if _, err := fmt.Sscanf(r.URL.Query().Get("status"), "%3d", &status); err == nil && status >= 200 && status <= 599 {
		return status
	}
	return http.StatusCreated
}

func (d *demoUpstream) close() error { return d.server.Close() }
