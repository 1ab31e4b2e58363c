package conformance

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// App returns the application that the suite talks to through the layer under
// test. It does what the query of a request says and counts how often it has
// run for each case:
//
//	POST /do?case=ID            runs: counts, then
//	    &hold=1                 waits until POST /release?case=ID
//	    &header=Name:Value      adds a response header; may be repeated
//	    &flush=1                flushes before the body
//	    &abort=1                panics with http.ErrAbortHandler
//	    &status=N &body=TEXT &size=N   answers; size repeats a letter
//	    &echo=1                 answers with the request's body
//	GET  /runs?case=ID          how often it has run
//
// Requests to /release and /runs carry no key.
func App() http.Handler {
	a := &app{cases: map[string]*state{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/do", a.do)
	mux.HandleFunc("GET /runs", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, a.state(r).count())
	})
	mux.HandleFunc("POST /release", func(_ http.ResponseWriter, r *http.Request) { a.state(r).release() })
	return mux
}

type app struct {
	mu    sync.Mutex
	cases map[string]*state
}

// A state is what the application knows of one case.
type state struct {
	mu       sync.Mutex
	runs     int
	released chan struct{}
	once     sync.Once
}

func (s *state) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

func (s *state) release() { s.once.Do(func() { close(s.released) }) }

func (a *app) state(r *http.Request) *state {
	id := r.URL.Query().Get("case")
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.cases[id]
	if s == nil {
		s = &state{released: make(chan struct{})}
		a.cases[id] = s
	}
	return s
}

// holdFor bounds how long a request is held.
const holdFor = 30 * time.Second

func (a *app) do(w http.ResponseWriter, r *http.Request) {
	s, q := a.state(r), r.URL.Query()
	body := []byte(q.Get("body"))
	if q.Has("echo") {
		body = make([]byte, max(0, r.ContentLength))
		if n, err := readFull(r, body); err != nil || n != len(body) {
			http.Error(w, "the request's body has not arrived", http.StatusTeapot)
			return
		}
	}
	s.mu.Lock()
	s.runs++
	s.mu.Unlock()
	if q.Has("hold") {
		select {
		case <-s.released:
		case <-time.After(holdFor):
		}
	}
	if q.Has("abort") {
		panic(http.ErrAbortHandler)
	}
	for _, header := range q["header"] {
		name, value, _ := strings.Cut(header, ":")
		w.Header().Add(name, value)
	}
	if n, err := strconv.Atoi(q.Get("size")); err == nil {
		body = []byte(strings.Repeat("x", n))
	}
	if status, err := strconv.Atoi(q.Get("status")); err == nil {
		w.WriteHeader(status)
	}
	if q.Has("flush") {
		_ = http.NewResponseController(w).Flush() // a layer may have none to offer
	}
	_, _ = w.Write(body) // the client may be gone
}

func readFull(r *http.Request, body []byte) (n int, err error) {
	for n < len(body) && err == nil {
		var m int
		m, err = r.Body.Read(body[n:])
		n += m
	}
	if n == len(body) {
		err = nil
	}
	return n, err
}
