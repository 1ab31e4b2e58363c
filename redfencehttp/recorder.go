package redfencehttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errRefused is what a handler's writes return once its response can neither
// be recorded nor be passed through.
var errRefused = errors.New("redfencehttp: the response can neither be recorded nor be streamed under this claim")

// A recorder keeps what the handler writes until the record is settled. It has
// no Unwrap, so that nothing gets past it.
//
// A response that cannot be recorded goes live: the ledger is told before the
// first byte leaves, and from then on writes go to the client.
type recorder struct {
	w        http.ResponseWriter
	settings *settings
	fence    int64
	// giveUp tells the ledger that the response cannot be replayed. Its error
	// means that nothing may leave.
	giveUp func(status int, reason string) error

	outer  http.Header // what outer middleware had set
	header http.Header // the handler's view
	mode   mode
	told   bool // the ledger knows that there is nothing to replay
	wrote  bool // the final header
	status int
	sent   http.Header // as it was when the final header was written
	size   int         // of sent
	length int64       // declared Content-Length, -1: none
	count  int64       // bytes written by the handler
	body   []byte
}

type mode uint8

const (
	recording mode = iota
	live
	hijacked
	refused
)

func newRecorder(w http.ResponseWriter, s *settings, fence int64, giveUp func(int, string) error) *recorder {
	outer := w.Header().Clone()
	if outer == nil {
		outer = http.Header{}
	}
	return &recorder{w: w, settings: s, fence: fence, giveUp: giveUp, outer: outer, header: outer.Clone(), length: -1}
}

// Header implements http.ResponseWriter.
func (c *recorder) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter. Informational responses leave at
// once: they are not the answer. 101 is final.
func (c *recorder) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) // as net/http does
	case c.wrote || c.mode == hijacked:
		return
	case status < 200 && status != http.StatusSwitchingProtocols:
		c.inform(status)
		return
	}
	c.wrote, c.status, c.sent = true, status, c.header.Clone()
	c.size = headerSize(c.sent)
	if n, err := strconv.ParseInt(c.sent.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		c.length = n
	}
	if status == http.StatusSwitchingProtocols {
		_ = c.goLive("switched protocols") // a refusal is remembered in mode
	}
}

// tell tells the ledger, once.
func (c *recorder) tell(status int, reason string) error {
	if c.mode == refused {
		return errRefused
	}
	if c.told {
		return nil
	}
	if err := c.giveUp(status, reason); err != nil {
		c.mode, c.body = refused, nil
		return errRefused
	}
	c.told = true
	return nil
}

func (c *recorder) inform(status int) {
	replace(c.w.Header(), c.header)
	c.w.WriteHeader(status)
	replace(c.w.Header(), c.outer)
}

func replace(dst, src http.Header) {
	clear(dst)
	for name, values := range src {
		dst[name] = slices.Clone(values)
	}
}

// Write implements http.ResponseWriter.
func (c *recorder) Write(p []byte) (int, error) {
	if !c.wrote {
		c.WriteHeader(http.StatusOK)
	}
	if err := c.admit(len(p)); err != nil {
		return 0, err
	}
	if c.mode == live {
		return c.w.Write(p)
	}
	c.body = append(c.body, p...)
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (c *recorder) WriteString(s string) (int, error) { return c.Write([]byte(s)) }

// admit makes room for n more bytes, or says why there is none. A response that
// grows over the limit goes live; nothing is ever cut off.
func (c *recorder) admit(n int) error {
	switch {
	case c.mode == hijacked:
		return http.ErrHijacked
	case c.mode == refused:
		return errRefused
	case !bodyAllowed(c.status) && c.status != http.StatusSwitchingProtocols:
		return http.ErrBodyNotAllowed
	case c.length >= 0 && c.count+int64(n) > c.length:
		return http.ErrContentLength
	}
	if limit := c.settings.maxResponse; c.mode == recording && c.size+len(c.body)+n > limit {
		if err := c.goLive(fmt.Sprintf("larger than %d bytes", limit)); err != nil {
			return err
		}
	}
	c.count += int64(n)
	return nil
}

// ReadFrom implements io.ReaderFrom.
func (c *recorder) ReadFrom(src io.Reader) (int64, error) {
	if c.mode == live && c.length < 0 {
		return io.Copy(c.w, src)
	}
	return io.Copy(struct{ io.Writer }{c}, src)
}

// goLive tells the ledger, then lets out what was recorded so far.
func (c *recorder) goLive(reason string) error {
	if err := c.tell(c.status, reason); err != nil {
		return err
	}
	c.mode = live
	c.sendHeader(false)
	body := c.body
	c.body = nil
	if len(body) == 0 {
		return nil
	}
	_, err := c.w.Write(body)
	return err
}

// sendHeader sends the final header with our own marks.
func (c *recorder) sendHeader(durable bool) {
	h := c.w.Header()
	replace(h, c.sent)
	mark(h, c.fence, durable)
	c.w.WriteHeader(c.status)
}

func mark(h http.Header, fence int64, durable bool) {
	if fence > 0 {
		h.Set(FenceHeader, strconv.FormatInt(fence, 10))
	}
	if !durable {
		h.Set(DurableHeader, "false")
	}
}

// end is called when the handler has returned: no write at all means 200.
func (c *recorder) end() {
	if !c.wrote && c.mode == recording {
		c.WriteHeader(http.StatusOK)
	}
}

// send gives the client what the handler wrote, unless it has it already.
func (c *recorder) send(durable bool) {
	if c.mode == recording {
		c.sendHeader(durable && !c.told)
		if len(c.body) > 0 {
			_, _ = c.w.Write(c.body) // the client may be gone; the record is settled
		}
	}
	if c.mode == recording || c.mode == live {
		c.sendTrailers()
	}
}

// sendTrailers passes on what the handler has set since: trailers go to the
// first client only.
func (c *recorder) sendTrailers() {
	h := c.w.Header()
	for _, list := range c.sent["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, ok := c.header[name]; ok {
				h[name] = values
			}
		}
	}
	maps.DeleteFunc(c.header, func(name string, _ []string) bool { return !strings.HasPrefix(name, http.TrailerPrefix) })
	maps.Copy(h, c.header)
}

// Flush implements http.Flusher.
func (c *recorder) Flush() { _ = c.FlushError() }

// FlushError flushes for http.ResponseController. A response that streams goes
// live; for any other, and once it was refused, it does nothing.
func (c *recorder) FlushError() error {
	if !supports[flusher](c.w) {
		return http.ErrNotSupported
	}
	if !c.wrote {
		c.WriteHeader(http.StatusOK)
	}
	if c.mode == recording && c.settings.streams(c.sent) {
		if err := c.goLive("streamed"); err != nil {
			return err
		}
	}
	if c.mode != live {
		return nil
	}
	return http.NewResponseController(c.w).Flush()
}

// Hijack implements http.Hijacker. The ledger is told first.
func (c *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !supports[http.Hijacker](c.w) {
		return nil, nil, http.ErrNotSupported
	}
	if err := c.tell(http.StatusSwitchingProtocols, "hijacked"); err != nil {
		return nil, nil, err
	}
	conn, buffered, err := http.NewResponseController(c.w).Hijack()
	if err == nil {
		c.mode = hijacked
	}
	return conn, buffered, err
}

// SetReadDeadline serves http.ResponseController.
func (c *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetReadDeadline(t)
}

// SetWriteDeadline serves http.ResponseController.
func (c *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(c.w).SetWriteDeadline(t)
}

// EnableFullDuplex serves http.ResponseController.
func (c *recorder) EnableFullDuplex() error {
	return http.NewResponseController(c.w).EnableFullDuplex()
}

type flusher interface{ Flush() }

// supports looks for a method as http.ResponseController does, without calling
// it.
func supports[T any](w http.ResponseWriter) bool {
	for {
		if _, ok := w.(T); ok {
			return true
		}
		inner, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return false
		}
		w = inner.Unwrap()
	}
}
