// Package instance is the service that a chaos run calls: a handler behind the
// real middleware over the real engine, or behind a baseline, whose effect is a
// line in the recorder.
package instance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
	"github.com/redfence/redfence/redfencehttp"
)

// Routes remembers by which route each claim was granted, from the engine's
// events until the handler asks. It is an observe.Observer, safe for
// concurrent use.
type Routes struct{ byFence sync.Map }

// Observe implements observe.Observer.
func (r *Routes) Observe(e observe.Event) {
	if granted, ok := e.(observe.ClaimGranted); ok {
		r.byFence.Store(granted.Fence, string(granted.Route))
	}
}

// take returns the route of the claim with this fence.
func (r *Routes) take(fence int64) string {
	route, ok := r.byFence.LoadAndDelete(fence)
	if !ok {
		return "unknown"
	}
	return route.(string)
}

// Service is one instance.
type Service struct {
	// Name is what the recorder knows it by.
	Name string
	// Recorder takes its effects.
	Recorder *recorder.Client
	// Routes observes the engine. Nil: a baseline, which says the route itself.
	Routes *Routes
	// Options of the middleware come after the preset IETF.
	Options []redfencehttp.Option
	// Redlock is the stand-alone lock. Nil: none is served.
	Redlock lock.Locker

	engine *redfence.Engine // nil: a baseline, which serves neither transfers nor locks
}

// Handler returns the service behind the middleware.
func (s *Service) Handler(eng *redfence.Engine) (http.Handler, error) {
	s.engine = eng
	options := append([]redfencehttp.Option{redfencehttp.IETF(), redfencehttp.Unscoped()}, s.Options...)
	mw, err := redfencehttp.New(eng, options...)
	if err != nil {
		return nil, err
	}
	return s.Behind(mw.Wrap), nil
}

// Behind returns the service behind any middleware.
func (s *Service) Behind(wrap func(http.Handler) http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /work", wrap(http.HandlerFunc(s.work)))
	if s.engine != nil {
		mux.Handle("POST /transfer", &transfers{engine: s.engine})
		mux.Handle("POST /lock", &locks{service: s, lockers: map[string]lock.Locker{history.EngineLock: s.engine, history.Redlock: s.Redlock}})
	}
	return mux
}

// answer is the response: it names the execution that made it, so that two
// executions never look alike.
type answer struct {
	Key       string `json:"key"`
	Execution string `json:"execution"`
}

// What a request asks of the handler, in headers.
const (
	// WorkHeader is how long the work takes before its effect.
	WorkHeader = "Chaos-Work"
	// WaitHeader names a file that the work waits for before its effect.
	WaitHeader = "Chaos-Wait-For"
	// OtherHeader makes the body another than that of the key's first request.
	OtherHeader = "Chaos-Other"
	// ThenHeader is what happens after the effect: panic, or fail (a 500).
	// Empty: the response.
	ThenHeader = "Chaos-Then"
	// SinkHeader is where the effect goes: history.Plain and so on.
	SinkHeader = "Chaos-Sink"
)

// work is the handler: start and effect are on the recorder's disk before it
// goes on.
func (s *Service) work(w http.ResponseWriter, r *http.Request) {
	fence, _ := redfencehttp.Fence(r.Context())
	effect := history.Effect{
		Key: r.Header.Get("Idempotency-Key"), Execution: rand.Text(), Fence: fence,
		Attempt: redfencehttp.Attempt(r.Context()), Instance: s.Name, Route: r.Header.Get(baseline.RouteHeader),
		Sink: r.Header.Get(SinkHeader),
	}
	if s.Routes != nil {
		effect.Route = s.Routes.take(fence)
	} else if effect.Sink == history.Fenced {
		effect.Sink = history.Plain // a baseline has no fence to show
	}
	if err := s.run(r.Context(), effect, r.Header); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	switch r.Header.Get(ThenHeader) {
	case "panic":
		panic(http.ErrAbortHandler) // the one that net/http does not log
	case "fail":
		http.Error(w, "failed after the effect", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{Key: effect.Key, Execution: effect.Execution})
}

func (s *Service) run(ctx context.Context, effect history.Effect, asked http.Header) error {
	for _, kind := range []string{history.Start, history.Done, history.End} {
		if kind == history.Done {
			if err := toil(ctx, asked); err != nil {
				return err
			}
		}
		effect.Kind = kind
		if err := s.record(ctx, effect); err != nil {
			return fmt.Errorf("record the %s: %w", kind, err)
		}
	}
	return nil
}

// errStale is what the fenced sink says to an older fence.
var errStale = errors.New("the sink has seen a newer fence")

// record records one line. What the deduplicating sink may have applied is sent
// again: that is what it is for.
func (s *Service) record(ctx context.Context, e history.Effect) error {
	recorded, err := s.Recorder.Record(ctx, e)
	deduplicated := e.Kind == history.Done && e.Sink == history.Deduplicating
	for try := 0; err != nil && deduplicated && try < 2; try++ {
		recorded, err = s.Recorder.Record(ctx, e)
	}
	if err == nil && recorded.Refused && e.Sink == history.Fenced {
		return errStale
	}
	return err
}

// toil takes the time that was asked for; it ends early with the context.
func toil(ctx context.Context, asked http.Header) error {
	if took, err := time.ParseDuration(asked.Get(WorkHeader)); err == nil {
		if err := pause(ctx, took); err != nil {
			return err
		}
	}
	for file := asked.Get(WaitHeader); file != ""; {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
