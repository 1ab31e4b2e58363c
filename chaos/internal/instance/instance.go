// Package instance is the service that a chaos run calls: a handler behind the
// real middleware over the real engine, whose effect is a line in the recorder.
package instance

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/recorder"
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
	// Routes observes the engine.
	Routes *Routes
}

// Handler returns the service behind the middleware.
func (s *Service) Handler(eng *redfence.Engine) (http.Handler, error) {
	mw, err := redfencehttp.New(eng, redfencehttp.IETF(), redfencehttp.Unscoped())
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /work", mw.Wrap(http.HandlerFunc(s.work)))
	return mux, nil
}

// answer is the response: it names the execution that made it, so that two
// executions never look alike.
type answer struct {
	Key       string `json:"key"`
	Execution string `json:"execution"`
}

// work is the handler: start and effect are on the recorder's disk before it
// goes on. The header Work says how long it takes.
func (s *Service) work(w http.ResponseWriter, r *http.Request) {
	fence, _ := redfencehttp.Fence(r.Context())
	effect := history.Effect{
		Key: r.Header.Get("Idempotency-Key"), Execution: rand.Text(), Fence: fence,
		Attempt: redfencehttp.Attempt(r.Context()), Instance: s.Name, Route: s.Routes.take(fence),
	}
	took, _ := time.ParseDuration(r.Header.Get("Work"))
	if err := s.run(r.Context(), effect, took); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer{Key: effect.Key, Execution: effect.Execution})
}

func (s *Service) run(ctx context.Context, effect history.Effect, took time.Duration) error {
	for _, kind := range []string{history.Start, history.Done, history.End} {
		if kind == history.Done {
			pause(ctx, took)
		}
		effect.Kind = kind
		if err := s.Recorder.Record(ctx, effect); err != nil {
			return fmt.Errorf("record the %s: %w", kind, err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
