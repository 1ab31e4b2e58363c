package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/redfencehttp"
)

// Config says what a gateway serves. Engine and one route are required.
type Config struct {
	// Engine runs the work of a key once.
	Engine redfencehttp.Engine
	// Routes are what is proxied.
	Routes []Route
	// Locks serves the lock API under /-/locks/. Defaults to off.
	Locks Locks
	// Locker hands out the locks: the engine. Required with Locks.
	Locker lock.Locker
	// Ready says whether there is a usable route to the stores; readyz asks
	// it. Defaults to always ready.
	Ready func(context.Context) error
	// Metrics is served under /-/metrics. Defaults to nothing.
	Metrics http.Handler
	// Transport reaches the upstreams. Defaults to one with all time-outs set.
	Transport http.RoundTripper
	// Error is told what went wrong with an upstream, in one line without
	// keys, queries and bodies. Defaults to nobody.
	Error func(error)
}

// Route is one upstream and how requests to it are protected. The names in
// configuration files are those of the yaml tags.
type Route struct {
	// Path is a pattern of http.ServeMux without a method. Defaults to "/".
	Path string `yaml:"path"`
	// Upstream is the address of the service, such as http://127.0.0.1:9000.
	// Required.
	Upstream string `yaml:"upstream"`
	// PreserveHost sends the client's Host to the upstream. Defaults to the
	// upstream's own.
	PreserveHost bool `yaml:"preserve_host"`
	// Methods are protected. Defaults to POST and PATCH.
	Methods []string `yaml:"methods"`
	// Preset is ietf, stripe or webhook. Defaults to ietf.
	Preset string `yaml:"preset"`
	// Scope says whose key it is. Required.
	Scope Scope `yaml:"scope"`
	// Headers carry the key. Defaults to Idempotency-Key and
	// X-Idempotency-Key.
	Headers []string `yaml:"headers"`
	// RequireKey refuses requests without a key.
	RequireKey bool `yaml:"require_key"`
	// Retention is how long a response is kept; in files also "forever".
	// Defaults to 24 h.
	Retention time.Duration `yaml:"retention"`
	// Lease is how long a claim stays in force without renewal. Defaults to
	// 10 s.
	Lease time.Duration `yaml:"lease"`
	// MaxProcessing bounds one execution. Defaults to 5 min.
	MaxProcessing time.Duration `yaml:"max_processing"`
	// Wait is how long a duplicate waits for the one in flight. Defaults to
	// not at all.
	Wait time.Duration `yaml:"wait"`
	// OnAbandoned is hold or retry. Defaults to the preset's.
	OnAbandoned string `yaml:"on_abandoned"`
	// NeverAgain is the status, 409 or 410, for a key whose retention is over.
	// Defaults to running it again.
	NeverAgain int `yaml:"never_again"`
	// Fingerprint is raw or json. Defaults to raw.
	Fingerprint string `yaml:"fingerprint"`
	// WithoutBodies records that a request was processed and nothing else.
	WithoutBodies bool `yaml:"without_bodies"`
	// MaxRequest and MaxResponse override the defaults of redfencehttp, in
	// bytes.
	MaxRequest  int64 `yaml:"max_request"`
	MaxResponse int64 `yaml:"max_response"`
	// MaxPerScope overrides the default of redfencehttp.
	MaxPerScope int `yaml:"max_per_scope"`
	// ExposeHeaders adds the headers of this package to
	// Access-Control-Expose-Headers, so that browsers show them.
	ExposeHeaders bool `yaml:"expose_headers"`
}

// presets by their names in configuration.
var presets = map[string]func() redfencehttp.Option{
	"": redfencehttp.IETF, "ietf": redfencehttp.IETF, "stripe": redfencehttp.Stripe, "webhook": redfencehttp.Webhook,
}

var fingerprints = map[string]redfencehttp.FingerprintVersion{
	"": redfencehttp.RawBody, "raw": redfencehttp.RawBody, "json": redfencehttp.CanonicalJSON,
}

var takeovers = map[string]redfence.Takeover{"hold": redfence.Hold, "retry": redfence.Retry}

// A fieldProblem is one mistake in a route, by the name of the field in the
// configuration file.
type fieldProblem struct {
	field string // such as routes[0].upstream
	err   error
}

func (p *fieldProblem) Error() string { return p.field + ": " + p.err.Error() }
func (p *fieldProblem) Unwrap() error { return p.err }

// A checked route is ready to be served.
type checked struct {
	Route
	target *url.URL
	mw     *redfencehttp.Middleware
}

// check reports every problem of the route, each under its field.
func (r Route) check(engine redfencehttp.Engine, where string, list *problems.List) checked {
	bad := func(field, format string, args ...any) {
		list.AddErr(&fieldProblem{where + "." + field, fmt.Errorf(format, args...)})
	}
	c := checked{Route: r}
	if c.Path == "" {
		c.Path = "/"
	}
	if strings.Contains(c.Path, " ") || !strings.Contains(c.Path, "/") {
		bad("path", "%q is no path; give a pattern without a method, such as /charges/", r.Path)
	}
	target, err := url.Parse(r.Upstream)
	if err != nil || target.Host == "" || (target.Scheme != "http" && target.Scheme != "https") {
		bad("upstream", "%q; give an address such as http://127.0.0.1:9000", r.Upstream)
	}
	c.target = target
	if presets[r.Preset] == nil {
		bad("preset", "unknown preset %q; use ietf, stripe or webhook", r.Preset)
	}
	if _, ok := fingerprints[r.Fingerprint]; !ok {
		bad("fingerprint", "unknown %q; use raw or json", r.Fingerprint)
	}
	if _, ok := takeovers[r.OnAbandoned]; !ok && r.OnAbandoned != "" {
		bad("on_abandoned", "unknown %q; use hold or retry", r.OnAbandoned)
	}
	if r.NeverAgain != 0 && r.NeverAgain != http.StatusConflict && r.NeverAgain != http.StatusGone {
		bad("never_again", "%d; use 409 or 410", r.NeverAgain)
	}
	scope, err := r.Scope.resolver()
	if err != nil {
		bad("scope", "%w", err)
	}
	if presets[r.Preset] == nil || scope == nil {
		return c
	}
	c.mw, err = redfencehttp.New(engine, append([]redfencehttp.Option{presets[r.Preset](), scope}, r.overrides()...)...)
	if err != nil {
		for _, problem := range problems.All(err) {
			list.AddErr(underField(where, problem))
		}
	}
	return c
}

// option is how a problem of redfencehttp names what it is about.
var option = regexp.MustCompile(`^(?:Policy\.)?([A-Z]\w+):? (.*)`)

// fields of a route by the options that they give.
var fields = map[string]string{
	"Methods": "methods", "Headers": "headers", "Retention": "retention", "Lease": "lease", "MaxProcessing": "max_processing", "Wait": "wait",
	"MaxRequest": "max_request", "MaxResponse": "max_response", "MaxPerScope": "max_per_scope",
}

// underField tells a problem of an option under the route's field for it.
func underField(where string, problem error) error {
	if named := option.FindStringSubmatch(problem.Error()); named != nil && fields[named[1]] != "" {
		return &fieldProblem{where + "." + fields[named[1]], errors.New(named[2])}
	}
	return &fieldProblem{where, problem}
}

// overrides are the options that the route gives on top of its preset.
func (r Route) overrides() []redfencehttp.Option {
	opts := []redfencehttp.Option{redfencehttp.Streaming(isStream), redfencehttp.Fingerprint(fingerprints[r.Fingerprint])}
	add := func(given bool, o redfencehttp.Option) {
		if given {
			opts = append(opts, o)
		}
	}
	add(len(r.Methods) > 0, redfencehttp.Methods(r.Methods...))
	add(len(r.Headers) > 0, redfencehttp.Headers(r.Headers...))
	add(r.RequireKey, redfencehttp.RequireKey())
	add(r.Retention != 0, redfencehttp.Retention(r.Retention))
	add(r.Lease != 0, redfencehttp.Lease(r.Lease))
	add(r.MaxProcessing != 0, redfencehttp.MaxProcessing(r.MaxProcessing))
	add(r.Wait != 0, redfencehttp.Wait(r.Wait))
	add(r.OnAbandoned != "", redfencehttp.OnAbandoned(takeovers[r.OnAbandoned]))
	add(r.NeverAgain != 0, redfencehttp.NeverAgain(r.NeverAgain))
	add(r.WithoutBodies, redfencehttp.WithoutBodies())
	add(r.MaxRequest != 0, redfencehttp.MaxRequest(r.MaxRequest))
	add(r.MaxResponse != 0, redfencehttp.MaxResponse(int(r.MaxResponse)))
	add(r.MaxPerScope != 0, redfencehttp.MaxPerScope(r.MaxPerScope))
	return opts
}

// isStream tells what has to be passed on as it comes. Everything else is
// recorded: the proxy also flushes responses that merely have no length.
func isStream(h http.Header) bool {
	media, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "text/event-stream" || strings.HasPrefix(media, "application/grpc")
}
