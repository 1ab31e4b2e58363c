package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
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
	report string // URL that is told of each start; empty: none
	runs   atomic.Int64
	server *http.Server
	addr   string
}

// startDemoUpstream serves on a free port of the loopback interface.
func startDemoUpstream(out io.Writer, report string) (*demoUpstream, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("demo upstream: %w", err)
	}
	d := &demoUpstream{out: out, report: report, addr: "http://" + listener.Addr().String()}
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
	if err := d.tell(r, run); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
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

// tell reports a start to the recorder of a chaos run, before anything else
// happens; it waits until the recorder has it on disk.
func (d *demoUpstream) tell(r *http.Request, run int64) error {
	if d.report == "" {
		return nil
	}
	fence, _ := strconv.ParseInt(r.Header.Get("Redfence-Fence"), 10, 64) // 0: a request without a key
	line, err := json.Marshal(map[string]any{
		"kind": "start", "key": r.Header.Get("Idempotency-Key"), "execution": strconv.FormatInt(run, 10), "fence": fence,
	})
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(r.Context()) // the handler has started, whoever waits for it
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.report, bytes.NewReader(line))
	if err != nil {
		return err
	}
	resp, err := recorderClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("the recorder answers %s", resp.Status), err)
	}
	return nil
}

var recorderClient = &http.Client{Timeout: 10 * time.Second}

func statusOf(r *http.Request) int {
	var status int
	if _, err := fmt.Sscanf(r.URL.Query().Get("status"), "%3d", &status); err == nil && status >= 200 && status <= 599 {
		return status
	}
	return http.StatusCreated
}

func (d *demoUpstream) close() error { return d.server.Close() }
