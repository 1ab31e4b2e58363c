package redfencehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/redfence/redfence"
)

func methodOf(pattern string) string {
	method, _, found := strings.Cut(pattern, " ")
	if !found {
		return ""
	}
	return method
}

// serve is one request, in the order that the table in problem.go documents.
func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rt := m.routeOf(r)
	if rt.off || !rt.methods[r.Method] || safe[r.Method] {
		next.ServeHTTP(w, r)
		return
	}
	a, err := rt.ask(w, r)
	switch {
	case err != nil:
		rt.refuse(w, err)
	case !a.keyed:
		next.ServeHTTP(w, a.restored(r, r.Context()))
	case !m.enter(rt, a.scope):
		rt.refuse(w, errScopeBusy)
	default:
		defer m.leave(rt, a.scope)
		c := &call{rt: rt, w: w, r: r, ask: a, next: next}
		// The engine is detached from the client: work that has begun is worth
		// finishing, and storing it never depends on the client.
		res, err := m.engine.Do(context.WithoutCancel(r.Context()), a.request(rt, r), c.run)
		c.answer(res, err)
	}
}

func (m *Middleware) enter(rt *route, scope string) bool {
	return rt.unscoped || rt.perScope == 0 || m.scopes.enter(scope, rt.perScope)
}

func (m *Middleware) leave(rt *route, scope string) {
	if !rt.unscoped && rt.perScope != 0 {
		m.scopes.leave(scope)
	}
}

// An ask is what a request asks for.
type ask struct {
	keyed      bool
	scope, key string
	read       bool // the body was read
	body       []byte
}

// ask takes the request apart: key, scope, body. A request without a key is
// not an error unless the route requires one.
func (rt *route) ask(w http.ResponseWriter, r *http.Request) (a ask, err error) {
	if rt.keyFrom != nil {
		if err := a.readBody(w, r, rt.maxRequest); err != nil {
			return a, err
		}
	}
	if a.key, a.keyed, err = rt.key(r, a.body); err != nil {
		return a, fmt.Errorf("%w: %w", errBadKey, err)
	}
	if !a.keyed {
		if rt.required {
			return a, errKeyRequired
		}
		return a, nil
	}
	if a.scope, err = rt.scope(r); err != nil {
		return a, fmt.Errorf("%w: %w", errNoScope, err)
	}
	if a.scope == "" && !rt.unscoped {
		return a, fmt.Errorf("%w: the resolver gave none", errNoScope)
	}
	return a, a.readBody(w, r, rt.maxRequest)
}

func (rt *route) key(r *http.Request, body []byte) (key string, found bool, err error) {
	if rt.keyFrom == nil {
		return headerKey(r.Header, rt.headers)
	}
	key, err = rt.keyFrom(r, body)
	if err == nil && len(key) > maxKey {
		err = errKeyLength
	}
	return key, key != "", err
}

// readBody reads the body under the limit, once.
func (a *ask) readBody(w http.ResponseWriter, r *http.Request, limit int64) error {
	if a.read || r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if r.ContentLength > limit {
		return errTooLarge
	}
	var b bytes.Buffer
	if r.ContentLength > 0 {
		b.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := b.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return errTooLarge
	case err != nil:
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	a.read, a.body = true, b.Bytes()
	return nil
}

// restored returns the request for the handler, its body intact. It has no
// GetBody, as ever on a server: with one, a http.Transport that it is handed to
// would send it again on its own, because it has an Idempotency-Key.
func (a *ask) restored(r *http.Request, ctx context.Context) *http.Request {
	if !a.read && ctx == r.Context() {
		return r
	}
	r = r.WithContext(ctx)
	if a.read {
		r.Body = io.NopCloser(bytes.NewReader(a.body))
		r.ContentLength = int64(len(a.body))
		r.TransferEncoding = nil
	}
	return r
}

func (a *ask) request(rt *route, r *http.Request) redfence.Request {
	return redfence.Request{
		Scope: a.scope, ID: a.key, Policy: &rt.policy,
		Fingerprint: rt.fingerprint.fingerprint(r, a.body),
	}
}

// A call is one request with a key.
type call struct {
	rt   *route
	w    http.ResponseWriter
	r    *http.Request
	ask  ask
	next http.Handler

	rec      *recorder // nil: the handler did not run in this call
	panicked bool
	panicWas any
	failure  error // of the handler, to be told instead of what it wrote
}

// run is the engine's handler: the HTTP handler, once. What leaves it is the
// record; what the client gets is in c.rec.
func (c *call) run(ctx context.Context, ex *redfence.Execution) (redfence.Response, error) {
	x := &execution{fence: ex.Fence(), attempt: ex.Attempt()}
	ctx = context.WithValue(ctx, executionKey{}, x)
	if c.rt.withClient {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(c.r.Context(), func() { cancel(context.Cause(c.r.Context())) })()
	}
	c.rec = newRecorder(c.w, &c.rt.settings, x.fence, func(status int, reason string) error {
		return ex.Unreplayable(context.WithoutCancel(ctx), status, reason)
	})
	began := time.Now()
	c.serveNext(c.ask.restored(c.r, ctx))
	c.rt.times.add(time.Since(began))
	return c.outcome(ctx, x)
}

// serveNext holds a panic back until the record is settled.
func (c *call) serveNext(r *http.Request) {
	c.panicked = true
	defer func() {
		if c.panicked {
			c.panicWas = recover()
		}
	}()
	c.next.ServeHTTP(c.rec, r)
	c.panicked = false
}

var errOutcome = errors.New("not recorded")

// outcome is what the engine is told.
func (c *call) outcome(ctx context.Context, x *execution) (redfence.Response, error) {
	rec := c.rec
	switch {
	case rec.told: // a tombstone, whatever came after it
		rec.end()
		return redfence.Response{Status: rec.status}, nil
	case rec.mode == refused:
		return redfence.Response{}, errRefused
	case c.panicked:
		return settle(x.or(c.rt.panics), redfence.Response{Status: http.StatusInternalServerError}, "panic")
	case !rec.wrote && ctx.Err() != nil:
		// A handler that gives up because its context ended writes nothing;
		// that is not a 200.
		c.failure = errCutShort
		return settle(x.or(Unknown), redfence.Response{Status: http.StatusServiceUnavailable}, "cut short")
	}
	rec.end()
	resp := redfence.Response{Status: rec.status}
	if !c.rt.withoutBodies {
		resp.Header, resp.Body = c.rt.storable(rec.sent, rec.outer), rec.body
	}
	return settle(x.or(c.rt.dispose(rec.status)), resp, fmt.Sprintf("status %d", rec.status))
}

// settle returns what the engine takes for a disposition.
func settle(d Disposition, resp redfence.Response, why string) (redfence.Response, error) {
	switch err := fmt.Errorf("%w: %s", errOutcome, why); d {
	case Stored:
		return resp, nil
	case Released:
		return redfence.Response{}, redfence.Undone(err)
	default:
		return redfence.Response{}, err
	}
}

// answer tells the client, once the record is settled.
func (c *call) answer(res redfence.Result, err error) {
	switch {
	case c.panicked:
		panic(c.panicWas)
	case c.rec != nil && c.rec.mode == refused:
		c.rt.refuse(c.w, redfence.ErrLedgerUnavailable)
	case c.rec != nil && c.failure != nil:
		c.rt.refuse(c.w, c.failure)
	case c.rec != nil: // it ran here, however the record went
		c.rec.send(err == nil && res.Durable)
	case err != nil:
		c.rt.refuse(c.w, err)
	default:
		c.rt.replay(c.w, c.r, res)
	}
}
