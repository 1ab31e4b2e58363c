package sim

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// An event is something that happened to a key, at the ledger or at a client.
type event struct {
	at    time.Duration // since the run began
	kind  eventKind
	key   string
	who   string // the engine
	call  int    // of start, returned, answered
	fence int64

	until   time.Duration // granted, renewed: the end of the lease
	retry   bool          // granted: the row says Retry
	attempt int           // granted, started
	request string        // granted, started, answered: the fingerprint
	result  result        // returned
	answer  *answer       // answered
}

type eventKind string

// What the ledger has answered; what handlers and clients have seen.
const (
	granted   eventKind = "granted"
	renewed   eventKind = "renewed"
	streaming eventKind = "streaming"
	completed eventKind = "completed"
	buried    eventKind = "buried"
	released  eventKind = "released"
	givenBack eventKind = "given back"
	abandoned eventKind = "abandoned"
	lapsed    eventKind = "lapsed"
	resolved  eventKind = "resolved" // to completed, by the hook
	freed     eventKind = "freed"    // to released, by the hook
	started   eventKind = "started"
	returned  eventKind = "returned"
	answered  eventKind = "answered"
	died      eventKind = "died" // of an engine; no key
)

// An answer is what a client got.
type answer struct {
	began    time.Duration
	outcome  string
	durable  bool
	content  string // the body, or the stored error
	err      error
	starts   int  // of the handler, by this call
	panicked bool // and so no result
	last     bool // asked after everything was mended
	noWait   bool
}

func (e event) String() string {
	text := fmt.Sprintf("%9.3fs %-10s %s %s fence %d", e.at.Seconds(), e.kind, e.key, e.who, e.fence)
	switch e.kind {
	case granted:
		text += fmt.Sprintf(", attempt %d, until %.3fs, retry %v, request %s", e.attempt, e.until.Seconds(), e.retry, e.request)
	case renewed:
		text += fmt.Sprintf(", until %.3fs", e.until.Seconds())
	case started:
		text += fmt.Sprintf(", call %d", e.call)
	case returned:
		text += fmt.Sprintf(", call %d: %s", e.call, e.result)
	case answered:
		a := e.answer
		text += fmt.Sprintf(", call %d since %.3fs: %s durable %v %q, error %v", e.call, a.began.Seconds(), a.outcome, a.durable, a.content, a.err)
	}
	return text
}

// A history is what happened, in the order in which it did.
type history struct {
	mu     sync.Mutex
	began  time.Time
	events []event
}

func (h *history) now() time.Duration { return time.Since(h.began) }

func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.append(e)
}

func (h *history) append(e event) {
	e.at = h.now()
	h.events = append(h.events, e)
}

// of returns what happened to a key, and the deaths of engines.
func (h *history) of(key string) []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []event
	for _, e := range h.events {
		if e.key == key || e.kind == died {
			list = append(list, e)
		}
	}
	return list
}

func lines(events []event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}
