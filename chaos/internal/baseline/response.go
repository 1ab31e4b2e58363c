package baseline

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/failpoint"
)

// response is what a handler has written. It is an http.ResponseWriter.
type response struct {
	Status int         `json:"status"`
	Head   http.Header `json:"header"`
	Body   []byte      `json:"body"`
	wrote  bool
}

// Header implements http.ResponseWriter.
func (r *response) Header() http.Header { return r.Head }

// WriteHeader implements http.ResponseWriter; the first status counts.
func (r *response) WriteHeader(status int) {
	if !r.wrote {
		r.wrote, r.Status = true, status
	}
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	r.wrote = true
	r.Body = append(r.Body, p...)
	return len(p), nil
}

func failed(err error) *response {
	return &response{Status: http.StatusInternalServerError, Head: http.Header{}, Body: []byte(err.Error())}
}

// ok reports whether it is worth keeping.
func (r *response) ok() bool { return r.Status < http.StatusInternalServerError }

func (r *response) writeTo(w http.ResponseWriter) {
	maps.Copy(w.Header(), r.Head)
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body)
}

// responses are stored on every node.
type responses struct {
	nodes     []redis.UniversalClient
	retention time.Duration
}

func responseKey(key string) string { return "response:" + key }

// look asks one node after the other.
func (s *responses) look(ctx context.Context, key string) (*response, bool) {
	for _, node := range s.nodes {
		text, err := node.Get(ctx, responseKey(key)).Bytes()
		if err != nil {
			continue
		}
		var r response
		if json.Unmarshal(text, &r) == nil {
			return &r, true
		}
	}
	return nil, false
}

// put stores a response on every node; an error says that none has it.
func (s *responses) put(ctx context.Context, key string, r *response) error {
	if err := failpoint.Hit(ctx, "before-cache-put"); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var all error
	stored := false
	for _, node := range s.nodes {
		err := node.Set(ctx, responseKey(key), text, s.retention).Err()
		stored = stored || err == nil
		all = errors.Join(all, err)
	}
	if stored {
		return nil
	}
	return all
}
