package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/redfencehttp"
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
	cfg.Locks.check("locks", &list)
	if cfg.Locks.Enabled && cfg.Locker == nil {
		list.Add("Locker: none; locks are enabled, so give an engine")
	}
	if cfg.Transport == nil {
		cfg.Transport = NewTransport()
	}
	if cfg.Error == nil {
		cfg.Error = func(error) {}
	}
	mux := http.NewServeMux()
	var published []publishedRoute
	for i, r := range cfg.Routes {
		where := fmt.Sprintf("routes[%d]", i)
		c := r.check(cfg.Engine, where, &list)
		if c.mw == nil {
			continue
		}
		if err := register(mux, c.Path, c.handler(cfg)); err != nil {
			list.AddErr(&fieldProblem{where + ".path", err})
		}
		published = append(published, publishedRoute{c.Path, c.mw.Published()[0]})
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	cfg.ownPaths(mux, published)
	return mux, nil
}

// registeredAt is where in our own source http.ServeMux has seen a pattern.
var registeredAt = regexp.MustCompile(` \(registered at [^)]*\)`)

// register turns the panic of http.ServeMux on a bad or conflicting pattern
// into an error.
func register(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
			err = errors.New(registeredAt.ReplaceAllString(text, ""))
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// ownPaths are what the gateway answers itself.
func (cfg Config) ownPaths(mux *http.ServeMux, published []publishedRoute) {
	if cfg.Locks.Enabled {
		newLockAPI(cfg.Locks, cfg.Locker).register(mux)
	}
	mux.HandleFunc("GET /-/policy", func(w http.ResponseWriter, _ *http.Request) { respond(w, http.StatusOK, published) })
	mux.HandleFunc("/-/", http.NotFound)
	mux.HandleFunc("GET /-/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(openAPI) // the client may be gone
	})
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

// A publishedRoute is what clients have to know of a route.
type publishedRoute struct {
	Path string `json:"path"`
	redfencehttp.PublishedPolicy
}

func answer(w http.ResponseWriter, status int, text string) {
	respond(w, status, map[string]string{"status": text})
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
