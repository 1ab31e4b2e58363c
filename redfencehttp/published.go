package redfencehttp

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/redfence/redfence"
)

// A PublishedPolicy is what clients have to know of one route: the draft asks
// for it, because a client can only retry safely while its key is remembered.
type PublishedPolicy struct {
	// Route is the pattern; empty: every other request.
	Route string `json:"route,omitempty"`
	// Preset that the route begins with.
	Preset string `json:"preset"`
	// Protected is false for routes that always pass.
	Protected bool `json:"protected"`
	// Methods that are protected.
	Methods []string `json:"methods,omitempty"`
	// Headers carry the key; empty: it comes from elsewhere in the request.
	Headers []string `json:"headers,omitempty"`
	// KeyRequired: requests without a key are refused.
	KeyRequired bool `json:"key_required"`
	// MaxKeyBytes is the longest key.
	MaxKeyBytes int `json:"max_key_bytes,omitempty"`
	// MaxRequestBytes bounds the body of a request with a key;
	// MaxReplayedBytes what can be replayed.
	MaxRequestBytes  int64 `json:"max_request_bytes,omitempty"`
	MaxReplayedBytes int   `json:"max_replayed_bytes,omitempty"`
	// RetentionSeconds is how long a response is replayed; null: for ever.
	RetentionSeconds *float64 `json:"retention_seconds"`
	// AfterRetention is run_again or never_again.
	AfterRetention string `json:"after_retention,omitempty"`
	// WaitSeconds is how long a duplicate waits for the one in flight.
	WaitSeconds float64 `json:"wait_seconds"`
	// InFlight and Mismatch are statuses.
	InFlight int `json:"in_flight_status,omitempty"`
	Mismatch int `json:"mismatch_status,omitempty"`
	// Outcomes say what becomes of the usual statuses: stored, released or
	// unknown.
	Outcomes map[string]string `json:"outcomes,omitempty"`
}

// published statuses, in the order of the documentation.
var published = []int{200, 201, 202, 204, 302, 400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504}

// Published returns the policies of all routes, the middleware's own last.
func (m *Middleware) Published() []PublishedPolicy {
	var all []PublishedPolicy
	for _, rt := range m.routes {
		all = append(all, rt.published())
	}
	return append(all, m.base.published())
}

func (rt *route) published() PublishedPolicy {
	if rt.off {
		return PublishedPolicy{Route: rt.pattern, Preset: rt.preset}
	}
	p := PublishedPolicy{
		Route: rt.pattern, Preset: rt.preset, Protected: true, Methods: slices.Sorted(maps.Keys(rt.methods)),
		KeyRequired: rt.required, MaxKeyBytes: maxKey, MaxRequestBytes: rt.maxRequest, MaxReplayedBytes: rt.maxResponse,
		AfterRetention: "run_again", WaitSeconds: max(0, rt.policy.Wait.Seconds()),
		InFlight: rt.inFlight, Mismatch: rt.mismatch, Outcomes: map[string]string{},
	}
	if rt.keyFrom == nil {
		p.Headers = rt.headers
	}
	if retention := rt.retention(); retention != redfence.Forever {
		seconds := retention.Seconds()
		p.RetentionSeconds = &seconds
	}
	if rt.policy.AfterExpiry == redfence.NeverAgain {
		p.AfterRetention = "never_again"
	}
	for _, status := range published {
		p.Outcomes[strconv.Itoa(status)] = rt.dispose(status).String()
	}
	return p
}

// defaultRetention is the engine's.
const defaultRetention = 24 * time.Hour

func (rt *route) retention() time.Duration {
	if rt.policy.Retention == 0 {
		return defaultRetention
	}
	return rt.policy.Retention
}

// PolicyHandler serves what Published returns as JSON.
func (m *Middleware) PolicyHandler() http.Handler {
	body, err := json.MarshalIndent(map[string]any{"policies": m.Published()}, "", "  ")
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err != nil { // plain numbers and texts always marshal
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Cache-Control", "max-age=300")
		write(w, http.StatusOK, "application/json", body)
	})
}

// OpenAPI returns a fragment of an OpenAPI 3.1 document as JSON: components to
// refer to from the operations that the middleware protects, for its own
// settings (routes may differ). Parameters: IdempotencyKey. Headers:
// IdempotentReplayed, RedfenceFence, RedfenceDurable. Responses:
// IdempotencyBadKey, IdempotencyMismatch, IdempotencyInFlight,
// IdempotencyUnavailable. Schemas: Problem.
func (m *Middleware) OpenAPI() []byte {
	rt := m.base
	text := func(description string) map[string]any { return map[string]any{"description": description} }
	header := func(description, kind string) map[string]any {
		return map[string]any{"description": description, "schema": map[string]any{"type": kind}}
	}
	refused := func(description string, status int) map[string]any {
		r := text(description)
		r["x-status"] = status
		r["content"] = map[string]any{"application/problem+json": map[string]any{"schema": map[string]any{"$ref": "#/components/schemas/Problem"}}}
		return r
	}
	name := "Idempotency-Key"
	if len(rt.headers) > 0 {
		name = rt.headers[0]
	}
	inFlight := refused("A request with this key is in progress. Come back after Retry-After.", rt.inFlight)
	inFlight["headers"] = map[string]any{"Retry-After": header("Seconds", "integer")}
	fragment := map[string]any{"components": map[string]any{
		"parameters": map[string]any{"IdempotencyKey": map[string]any{
			"name": name, "in": "header", "required": rt.required,
			"description": "Makes the request safe to send again: at most one request with this key runs, and every later one gets its response.",
			"schema":      map[string]any{"type": "string", "minLength": 1, "maxLength": maxKey},
		}},
		"headers": map[string]any{
			"IdempotentReplayed": header("true: this is the recorded response of an earlier request.", "string"),
			"RedfenceFence":      header("Larger for every later claim of the key.", "integer"),
			"RedfenceDurable":    header("false: later requests with the key will not get this response.", "string"),
		},
		"responses": map[string]any{
			"IdempotencyBadKey":      refused("The key is not valid.", http.StatusBadRequest),
			"IdempotencyMismatch":    refused("The key was used with another request.", rt.mismatch),
			"IdempotencyInFlight":    inFlight,
			"IdempotencyUnavailable": refused("The request cannot be protected right now.", http.StatusServiceUnavailable),
		},
		"schemas": map[string]any{"Problem": map[string]any{
			"type": "object", "required": []string{"type", "title", "status"},
			"properties": map[string]any{
				"type": map[string]any{"type": "string", "format": "uri"}, "title": map[string]any{"type": "string"},
				"status": map[string]any{"type": "integer"}, "detail": map[string]any{"type": "string"},
			},
		}},
	}}
	body, err := json.MarshalIndent(fragment, "", "  ")
	if err != nil { // plain maps always marshal
		panic(err)
	}
	return body
}
