package redfencehttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"time"
)

// A told is one message to the ledger that a response cannot be replayed.
type told struct {
	status int
	reason string
	sent   int // bytes that had left by then
}

// record runs a handler under a recorder behind a real socket.
func record(t *testing.T, refuse error, limit int, handler http.HandlerFunc) (*service, *[]told, **recorder) {
	t.Helper()
	s := &service{t: t}
	var messages []told
	var last *recorder
	settings := defaults()
	settings.maxResponse = limit
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counter := &counting{ResponseWriter: w}
		last = newRecorder(counter, &settings, 7, func(status int, reason string) error {
			messages = append(messages, told{status, reason, counter.n})
			return refuse
		})
		handler(last, r)
		last.end()
		last.send(true)
	}))
	t.Cleanup(s.Close)
	return s, &messages, &last
}

// counting counts what gets past the recorder.
type counting struct {
	http.ResponseWriter
	n int
}

func (c *counting) Write(p []byte) (int, error) {
	c.n += len(p)
	return c.ResponseWriter.Write(p)
}

func (c *counting) WriteHeader(status int) {
	if status >= 200 {
		c.n++
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counting) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func TestLargeResponsesGoLiveInFull(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter, body string){
		"one write": func(w http.ResponseWriter, body string) { io.WriteString(w, body) },
		"many writes": func(w http.ResponseWriter, body string) {
			for chunk := range slices.Chunk([]byte(body), 777) {
				w.Write(chunk)
			}
		},
		"ReadFrom": func(w http.ResponseWriter, body string) { io.Copy(w, strings.NewReader(body)) },
	} {
		t.Run(name, func(t *testing.T) {
			body := strings.Repeat("0123456789", 1<<20)
			s, messages, _ := record(t, nil, 100_000, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Mine", "1")
				w.WriteHeader(http.StatusCreated)
				write(w, body)
			})
			r := s.post("/", "")
			if r.err != nil || r.body != body || r.StatusCode != 201 || r.Header.Get("X-Mine") != "1" {
				t.Errorf("%d bytes, %d, %v", len(r.body), r.StatusCode, r.err)
			}
			if r.Header.Get(FenceHeader) != "7" || r.Header.Get(DurableHeader) != "false" {
				t.Errorf("marks: %v", r.Header)
			}
			if want := (told{201, "larger than 100000 bytes", 0}); len(*messages) != 1 || (*messages)[0] != want {
				t.Errorf("told %v, want %v before the first byte", *messages, want)
			}
		})
	}
}

func TestFlushStreams(t *testing.T) {
	next := make(chan struct{})
	s, messages, _ := record(t, nil, 1<<20, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("flush: %v", err)
		}
		<-next
		io.WriteString(w, "two\n")
		w.(http.Flusher).Flush()
		<-next
	})
	resp, err := s.Client().Post(s.URL, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for _, want := range []string{"one\n", "two\n"} {
		if line, err := lines.ReadString('\n'); line != want || err != nil {
			t.Errorf("got %q, %v before the handler went on", line, err)
		}
		next <- struct{}{}
	}
	if want := (told{200, "streamed", 0}); len(*messages) != 1 || (*messages)[0] != want {
		t.Errorf("told %v", *messages)
	}
}

func TestFlushThatDoesNotStream(t *testing.T) {
	s, messages, last := record(t, nil, 1<<20, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "one")
		w.(http.Flusher).Flush()
	})
	settings := defaults()
	settings.streams = func(http.Header) bool { return false }
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*last = newRecorder(w, &settings, 0, func(int, string) error { t.Error("told"); return nil })
		io.WriteString(*last, "one")
		(*last).Flush()
		(*last).send(true)
	})
	if r := s.post("/", ""); r.body != "one" || len(*messages) != 0 {
		t.Errorf("%q, told %v", r.body, *messages)
	}
}

func TestRefusedNothingLeaves(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"flush": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "secret")
			if err := http.NewResponseController(w).Flush(); !errors.Is(err, errRefused) {
				t.Errorf("flush: %v", err)
			}
			if _, err := io.WriteString(w, "more"); !errors.Is(err, errRefused) {
				t.Errorf("write: %v", err)
			}
		},
		"large": func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write(make([]byte, 200)); !errors.Is(err, errRefused) {
				t.Errorf("write: %v", err)
			}
		},
		"hijack": func(w http.ResponseWriter, _ *http.Request) {
			if _, _, err := http.NewResponseController(w).Hijack(); !errors.Is(err, errRefused) {
				t.Errorf("hijack: %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, messages, last := record(t, errors.New("ledger unavailable"), 100, handler)
			r := s.post("/", "")
			if r.body != "" || r.Header.Get(FenceHeader) != "" {
				t.Errorf("%q %v left", r.body, r.Header)
			}
			if len(*messages) != 1 || (*last).mode != refused {
				t.Errorf("told %v, mode %v", *messages, (*last).mode)
			}
		})
	}
}

func TestHijack(t *testing.T) {
	s, messages, _ := record(t, nil, 100, func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		buffered.WriteString("HTTP/1.1 299 Mine\r\nContent-Length: 2\r\n\r\nhi")
		buffered.Flush()
		if _, err := io.WriteString(w, "x"); !errors.Is(err, http.ErrHijacked) {
			t.Errorf("write: %v", err)
		}
	})
	if r := s.post("/", ""); r.StatusCode != 299 || r.body != "hi" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	if want := (told{101, "hijacked", 0}); len(*messages) != 1 || (*messages)[0] != want {
		t.Errorf("told %v", *messages)
	}
}

func TestUnsupportedStaysRecorded(t *testing.T) {
	settings := defaults()
	plain := struct{ http.ResponseWriter }{httptest.NewRecorder()} // neither flushes nor hijacks
	c := newRecorder(plain, &settings, 0, func(int, string) error { t.Error("told"); return nil })
	if err := c.FlushError(); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("flush: %v", err)
	}
	if _, _, err := c.Hijack(); !errors.Is(err, http.ErrNotSupported) {
		t.Errorf("hijack: %v", err)
	}
	if c.mode != recording {
		t.Error("went live")
	}
}

func TestNothingGetsPastTheRecorder(t *testing.T) {
	if _, ok := any(&recorder{}).(interface{ Unwrap() http.ResponseWriter }); ok {
		t.Error("Unwrap lets handlers write past the recorder")
	}
	s, _, _ := record(t, nil, 100, func(w http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(w)
		for name, err := range map[string]error{
			"SetReadDeadline": rc.SetReadDeadline(time.Now().Add(time.Minute)), "SetWriteDeadline": rc.SetWriteDeadline(time.Now().Add(time.Minute)),
			"EnableFullDuplex": rc.EnableFullDuplex(),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	s.post("/", "").want(t, 200, false)
}

func TestInformationalIsNotFinal(t *testing.T) {
	s, messages, last := record(t, nil, 1<<20, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, "done")
	})
	var hints []string
	r, _ := http.NewRequest("POST", s.URL, nil)
	r = r.WithContext(httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprint(code, h.Get("Link")))
			return nil
		},
	}))
	got := s.send(r)
	if got.StatusCode != 201 || got.body != "done" || got.Header.Get("Link") != "" || len(*messages) != 0 || (*last).mode != recording {
		t.Errorf("%d %q %v, told %v", got.StatusCode, got.body, got.Header, *messages)
	}
	if !slices.Equal(hints, []string{"103</style.css>; rel=preload"}) {
		t.Errorf("hints %q", hints)
	}
}

func TestTrailersReachTheFirstClient(t *testing.T) {
	s, _, last := record(t, nil, 1<<20, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		io.WriteString(w, "body")
		w.Header().Set("X-Sum", "42")
		w.Header().Set(http.TrailerPrefix+"X-Late", "43")
	})
	r := s.post("/", "")
	if r.Trailer.Get("X-Sum") != "42" || r.Trailer.Get("X-Late") != "43" {
		t.Errorf("trailers %v", r.Trailer)
	}
	settings := defaults()
	if kept := settings.storable((*last).sent, (*last).outer); len(kept) != 0 {
		t.Errorf("stored %v", kept)
	}
}

func TestBodyRulesOfNetHTTP(t *testing.T) {
	for name, tc := range map[string]struct {
		handler func(w http.ResponseWriter) error
		want    error
	}{
		"204": {func(w http.ResponseWriter) error { w.WriteHeader(204); _, err := io.WriteString(w, "x"); return err }, http.ErrBodyNotAllowed},
		"304": {func(w http.ResponseWriter) error { w.WriteHeader(304); _, err := io.WriteString(w, "x"); return err }, http.ErrBodyNotAllowed},
		"too much": {func(w http.ResponseWriter) error {
			w.Header().Set("Content-Length", "1")
			_, err := io.WriteString(w, "xy")
			return err
		}, http.ErrContentLength},
		"twice": {func(w http.ResponseWriter) error { w.WriteHeader(200); w.WriteHeader(500); return nil }, nil},
	} {
		s, _, _ := record(t, nil, 100, func(w http.ResponseWriter, _ *http.Request) {
			if err := tc.handler(w); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v", name, err)
			}
		})
		s.post("/", "")
	}
}
