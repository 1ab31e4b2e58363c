// Package recorder is the ground truth of a chaos run: a log of handler starts
// and effects that knows neither Redis nor Postgres nor the engine. What it
// has acknowledged is on disk.
package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Recorder takes effects over HTTP and appends them to a file, with one fsync
// for all that came in meanwhile. It is safe for concurrent use.
type Recorder struct {
	clock  func() time.Duration
	file   *os.File
	server *http.Server
	url    string
	in     chan pending
	sinks  sinks         // of the writer
	quit   chan struct{} // closed when nothing more is taken
	done   chan struct{} // closed when the writer has ended

	mu      sync.Mutex // guards what follows
	effects []history.Effect
	starts  map[string]int    // by key
	routes  map[string]string // of the latest start, by key
	twice   int               // keys with more than one start
	breaker map[string]string // latest state, by instance
	failed  error             // of the log; the run is worth nothing after it
}

type pending struct {
	effect history.Effect
	ack    chan outcome
}

// outcome is the effect as it was recorded.
type outcome struct {
	effect history.Effect
	err    error
}

// New starts a recorder that appends to the file and takes the time from
// clock. It listens at a free port of the loopback interface.
func New(path string, clock func() time.Duration) (*Recorder, error) {
	return Listen("127.0.0.1:0", path, clock)
}

// Listen starts a recorder at an address, as New does.
func Listen(address, path string, clock func() time.Duration) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("recorder: %w", err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recorder: %w", err), file.Close())
	}
	r := &Recorder{
		clock: clock, file: file, url: "http://" + listener.Addr().String(),
		in: make(chan pending), quit: make(chan struct{}), done: make(chan struct{}), starts: map[string]int{}, routes: map[string]string{}, breaker: map[string]string{}, sinks: newSinks(),
	}
	r.server = &http.Server{Handler: http.HandlerFunc(r.serve)}
	go func() { _ = r.server.Serve(listener) }()
	go r.write()
	return r, nil
}

// URL is where Client sends to.
func (r *Recorder) URL() string { return r.url }

func (r *Recorder) serve(w http.ResponseWriter, req *http.Request) {
	var e history.Effect
	if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 1<<16)).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	recorded, err := r.Record(e)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case losesReply(recorded):
		panic(http.ErrAbortHandler) // applied, and the caller cannot know
	default:
		_ = json.NewEncoder(w).Encode(recorded)
	}
}

// Record appends an effect, with the present time, and returns what its sink
// made of it once it is on disk.
func (r *Recorder) Record(e history.Effect) (history.Effect, error) {
	e.At = r.clock()
	if e.Clock != 0 { // from the machine's clock to the run's
		now := Clock()
		e.Clock, e.Valid = e.At-(now-e.Clock), e.At-(now-e.Valid)
	}
	p := pending{effect: e, ack: make(chan outcome, 1)}
	select {
	case r.in <- p:
		got := <-p.ack
		return got.effect, got.err
	case <-r.quit:
		return e, errors.New("recorder: closed")
	}
}

// mostPerSync bounds how many effects share an fsync.
const mostPerSync = 1024

// write takes whatever is waiting, writes it, syncs once, and acknowledges.
func (r *Recorder) write() {
	defer close(r.done)
	for {
		select {
		case first := <-r.in:
			batch := r.gather(first)
			r.keep(batch, r.commit(batch))
		case <-r.quit:
			return
		}
	}
}

func (r *Recorder) gather(first pending) []pending {
	batch := []pending{first}
	for len(batch) < mostPerSync {
		select {
		case p := <-r.in:
			batch = append(batch, p)
		default:
			return batch
		}
	}
	return batch
}

func (r *Recorder) commit(batch []pending) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	for i := range batch {
		r.sinks.apply(&batch[i].effect)
		if err := enc.Encode(batch[i].effect); err != nil {
			return err
		}
	}
	if _, err := r.file.Write(text.Bytes()); err != nil {
		return err
	}
	return r.file.Sync()
}

func (r *Recorder) keep(batch []pending, err error) {
	r.mu.Lock()
	if err != nil {
		r.failed = errors.Join(r.failed, fmt.Errorf("recorder: %w", err))
	}
	for _, p := range batch {
		r.effects = append(r.effects, p.effect)
		r.count(p.effect)
	}
	r.mu.Unlock()
	for _, p := range batch {
		p.ack <- outcome{p.effect, err}
	}
}

// count keeps what the live figures need. The caller holds mu.
func (r *Recorder) count(e history.Effect) {
	if e.Kind == history.Breaker {
		r.breaker[e.Instance] = e.Route
	}
	if e.Kind != history.Start {
		return
	}
	r.routes[e.Key] = e.Route
	r.starts[e.Key]++
	if r.starts[e.Key] == 2 {
		r.twice++
	}
}

// Twice returns how many keys have had more than one start so far.
func (r *Recorder) Twice() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.twice
}

// Breaker returns the latest state of an instance's breaker; empty: it has not
// changed since the instance was started first.
func (r *Recorder) Breaker(instance string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.breaker[instance]
}

// StartedOn returns the route of the latest start of a key; empty: none.
func (r *Recorder) StartedOn(key string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routes[key]
}

// Effects returns what was recorded so far.
func (r *Recorder) Effects() []history.Effect {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]history.Effect(nil), r.effects...)
}

// Close ends the recorder. The error says whether the log can be trusted.
func (r *Recorder) Close() error {
	close(r.quit)
	<-r.done
	err := r.server.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(err, r.failed, r.file.Close())
}
