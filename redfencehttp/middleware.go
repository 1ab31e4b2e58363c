package redfencehttp

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/internal/problems"
)

// An Engine runs the work of a key once. *redfence.Engine is one.
type Engine interface {
	Do(ctx context.Context, req redfence.Request, fn redfence.Handler) (redfence.Result, error)
}

// A Middleware protects handlers. It is safe for concurrent use.
type Middleware struct {
	engine Engine
	base   *route
	routes []*route
	mux    *http.ServeMux // nil: no routes
	scopes scopes
}

// A route is one set of settings and what is known of its requests.
type route struct {
	settings
	pattern string // empty: the middleware's own
	times   latency
}

// ServeHTTP makes a route a handler, for http.ServeMux to find; it is never
// called.
func (*route) ServeHTTP(http.ResponseWriter, *http.Request) {}

// builder is a route while options are applied to it.
type builder struct {
	settings settings
	changed  bool // an option other than a preset was applied
	where    string
	routes   []routeOption
	problems *problems.List
}

type routeOption struct {
	pattern string
	options []Option
}

// New returns a middleware on an engine. A preset (IETF, Stripe or Webhook)
// comes first, overrides after it; without one it is IETF. Its error lists
// every problem of the options at once, those of routes once the middleware's
// own are in order.
func New(engine Engine, opts ...Option) (*Middleware, error) {
	var list problems.List
	if engine == nil {
		list.Add("engine: none")
	}
	b := &builder{settings: defaults(), problems: &list}
	IETF().apply(b)
	for _, o := range opts {
		o.apply(b)
	}
	b.settings.check(&list, "")
	if list.Err() != nil { // routes would repeat it
		return nil, list.Err()
	}
	m := &Middleware{engine: engine, base: &route{settings: b.settings}}
	for _, o := range b.routes {
		m.addRoute(b, o)
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Middleware) addRoute(base *builder, o routeOption) {
	where := fmt.Sprintf("Route(%q): ", o.pattern)
	b := &builder{settings: base.settings, where: where, problems: base.problems}
	if method := methodOf(o.pattern); method != "" {
		b.settings.methods = setOf([]string{method})
	}
	for _, option := range o.options {
		option.apply(b)
	}
	if method := methodOf(o.pattern); method != "" && !b.settings.off {
		b.settings.methods = setOf([]string{method}) // a preset has set it back
	}
	if len(b.routes) > 0 {
		base.problems.Add("%sholds another Route", where)
	}
	b.settings.check(base.problems, where)
	rt := &route{settings: b.settings, pattern: o.pattern}
	m.routes = append(m.routes, rt)
	if m.mux == nil {
		m.mux = http.NewServeMux()
	}
	base.problems.AddErr(register(m.mux, rt, where))
}

// registeredAt is where in our own source http.ServeMux has seen a pattern.
var registeredAt = regexp.MustCompile(` \(registered at [^)]*\)`)

// register turns the panic of http.ServeMux on a bad or conflicting pattern
// into an error.
func register(mux *http.ServeMux, rt *route, where string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			text, _, _ := strings.Cut(fmt.Sprint(p), "\n")
			err = fmt.Errorf("%s%s", where, registeredAt.ReplaceAllString(text, ""))
		}
	}()
	mux.Handle(rt.pattern, rt)
	return nil
}

func (m *Middleware) routeOf(r *http.Request) *route {
	if m.mux == nil {
		return m.base
	}
	if h, _ := m.mux.Handler(r); h != nil {
		if rt, ok := h.(*route); ok {
			return rt
		}
	}
	return m.base
}

// Wrap protects a handler.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
}
