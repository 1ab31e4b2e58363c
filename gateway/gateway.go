package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/redfence/redfence/internal/problems"
)

// New returns the gateway's handler. Its error lists every problem of the
// configuration at once.
func New(cfg Config) (http.Handler, error) {
	var list problems.List
	if cfg.Engine == nil {
		list.Add("Engine: none")
	}
	if len(cfg.Routes) == 0 {
		list.Add("routes: none; give at least one with an upstream")
	}
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Error == nil {
		cfg.Error = func(error) {}
	}
	mux := http.NewServeMux()
	for i, r := range cfg.Routes {
		where := fmt.Sprintf("routes[%d]", i)
		c := r.check(cfg.Engine, where, &list)
		if c.mw == nil {
			continue
		}
		if err := register(mux, c.Path, c.handler(cfg)); err != nil {
			list.AddErr(&fieldProblem{where + ".path", err})
		}
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	cfg.ownPaths(mux)
	return mux, nil
}

// register turns the panic of http.ServeMux on a bad or conflicting pattern
// into an error.
func register(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// ownPaths are what the gateway answers itself.
func (cfg Config) ownPaths(mux *http.ServeMux) {
	mux.HandleFunc("/-/", http.NotFound)
	mux.HandleFunc("GET /-/healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /-/readyz", func(w http.ResponseWriter, r *http.Request) {
		if cfg.Ready == nil {
			answer(w, http.StatusOK, "ready")
			return
		}
		if err := cfg.Ready(r.Context()); err != nil {
			answer(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	if cfg.Metrics != nil {
		mux.Handle("GET /-/metrics", cfg.Metrics)
	}
}

func answer(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"status": text}) // the client may be gone
}
