package redfencehttp

import (
	"net/http"
	"net/textproto"
	"strings"
	"time"

	"github.com/redfence/redfence"
)

// An Option changes a middleware or one of its routes. A preset comes first,
// overrides after it.
type Option interface{ apply(*builder) }

type optionFunc func(*builder)

func (f optionFunc) apply(b *builder) { f(b) }

// set makes an option of a change to the settings.
func set(change func(*settings)) Option {
	return optionFunc(func(b *builder) { change(&b.settings); b.changed = true })
}

// preset replaces all settings but the ones that every route shares.
func preset(name string, change func(*settings)) Option {
	return optionFunc(func(b *builder) {
		if b.changed {
			b.problems.Add("%s%s() comes after other options and would undo them; put the preset first", b.where, name)
		}
		s := defaults()
		s.scope, s.unscoped, s.preset = b.settings.scope, b.settings.unscoped, name
		s.problemBase, s.describedBy = b.settings.problemBase, b.settings.describedBy
		change(&s)
		b.settings = s
	})
}

// Scope says whose key it is: the authenticated tenant or user of the request,
// as the application's own authentication has found out. Keys of two scopes
// never meet. A resolver that returns an error or an empty scope refuses the
// request with 403.
// Never return an unauthenticated header.
//
// Either Scope or Unscoped is required.
func Scope[F func(*http.Request) string | func(*http.Request) (string, error)](of F) Option {
	return set(func(s *settings) {
		s.unscoped = false
		switch of := any(of).(type) {
		case func(*http.Request) string:
			s.scope = func(r *http.Request) (string, error) { return of(r), nil }
		case func(*http.Request) (string, error):
			s.scope = of
		}
	})
}

// Unscoped says on purpose that all callers are one: whoever knows a key gets
// its response.
func Unscoped() Option {
	return set(func(s *settings) {
		s.scope = func(*http.Request) (string, error) { return "", nil }
		s.unscoped = true
	})
}

// Policy replaces the policy of the engine's keys as a whole: lease, maximal
// processing time, retention, what happens to abandoned keys, how long a
// duplicate waits (redfence.NoWait, or a time: zero would wait as long as it
// takes, whatever becomes of the client). OnError and OnPanic have no meaning
// here: Dispose and Panics say what outcomes mean.
func Policy(p redfence.Policy) Option { return set(func(s *settings) { s.policy = p }) }

// Retention is how long a response is kept, from minutes to redfence.Forever.
// Defaults to 24 h.
func Retention(d time.Duration) Option { return set(func(s *settings) { s.policy.Retention = d }) }

// Lease is how long a claim stays in force without renewal. Defaults to 10 s.
func Lease(d time.Duration) Option { return set(func(s *settings) { s.policy.Lease = d }) }

// MaxProcessing bounds one execution, renewals included. Defaults to 5 min.
func MaxProcessing(d time.Duration) Option {
	return set(func(s *settings) { s.policy.MaxProcessing = d })
}

// Wait lets a duplicate of a key in flight wait this long for its response
// before it is told to come back. Defaults to not at all.
func Wait(d time.Duration) Option { return set(func(s *settings) { s.policy.Wait = d }) }

// OnAbandoned says what happens to a key whose process is gone: redfence.Hold
// or redfence.Retry. Defaults to the preset's.
func OnAbandoned(t redfence.Takeover) Option {
	return set(func(s *settings) { s.policy.OnAbandoned = t })
}

// Recover asks a hook what became of a key whose outcome is unknown, so that no
// operator has to: it answers with the response, releases the key, or leaves it
// unknown. It is asked once the maximal processing time has passed. Defaults to
// none.
func Recover(hook redfence.Recover) Option { return set(func(s *settings) { s.policy.Recover = hook }) }

// NeverAgain refuses a key with the given status, 409 or 410, once its
// retention is over, instead of running it again. Key, fence and state are
// kept for ever.
func NeverAgain(status int) Option {
	return set(func(s *settings) { s.policy.AfterExpiry, s.expired = redfence.NeverAgain, status })
}

// Headers are the names that carry the key, all of them looked at. Defaults to
// Idempotency-Key and X-Idempotency-Key.
func Headers(names ...string) Option {
	return set(func(s *settings) { s.headers, s.keyFrom = canonical(names), nil })
}

// KeyFrom takes the key from elsewhere, such as a field of the body, which has
// been read. An empty key means that the request has none; an error refuses it
// with 400. The result is taken as it is, 1 to 255 bytes.
func KeyFrom(key func(r *http.Request, body []byte) (string, error)) Option {
	return set(func(s *settings) { s.keyFrom = key })
}

// RequireKey refuses requests without a key with 400. Without it they pass
// unprotected.
func RequireKey() Option { return set(func(s *settings) { s.required = true }) }

// Methods are the methods that are protected, in either case. Defaults to POST
// and PATCH; GET, HEAD, OPTIONS and TRACE always pass.
func Methods(methods ...string) Option {
	return set(func(s *settings) { s.methods = setOf(upper(methods)) })
}

// Fingerprint chooses how two requests with one key are told apart. Defaults
// to RawBody.
func Fingerprint(v FingerprintVersion) Option { return set(func(s *settings) { s.fingerprint = v }) }

// MaxRequest is the largest body, in bytes, of a request with a key; it is read
// before the claim, and a larger one is refused with 413. Defaults to 1 MiB.
func MaxRequest(bytes int64) Option { return set(func(s *settings) { s.maxRequest = bytes }) }

// MaxResponse is the largest response that is recorded, headers included, in
// bytes. A larger one is passed through live and in full, and duplicates are
// told that it cannot be replayed. Keep it below the engine's
// Config.MaxResponse. Defaults to 4 KiB less than 1 MiB.
func MaxResponse(bytes int) Option { return set(func(s *settings) { s.maxResponse = bytes }) }

// InFlight is the status for a duplicate of a key in flight. Defaults to the
// preset's.
func InFlight(status int) Option { return set(func(s *settings) { s.inFlight = status }) }

// Mismatch is the status for another request under a used key. Defaults to the
// preset's.
func Mismatch(status int) Option { return set(func(s *settings) { s.mismatch = status }) }

// Dispose says what becomes of an outcome by its status, unless the handler
// has declared it. Defaults to the preset's.
func Dispose(of func(status int) Disposition) Option {
	return set(func(s *settings) { s.dispose = of })
}

// Panics says what becomes of a handler that panics. The panic goes on after
// the record is settled; if it is Stored, duplicates get a 500. Defaults to the
// preset's.
func Panics(d Disposition) Option { return set(func(s *settings) { s.panics = d }) }

// WithoutBodies records that a request was processed and nothing else:
// duplicates get 200 and {"cached":true,"message":"Request already processed"}.
func WithoutBodies() Option { return set(func(s *settings) { s.withoutBodies = true }) }

// AllowHeaders records these response headers and no others; what is never
// stored stays so. Defaults to all.
func AllowHeaders(names ...string) Option {
	return set(func(s *settings) { s.allowed = setOf(canonical(names)) })
}

// DenyHeaders adds response headers that are not recorded. Hop-by-hop headers,
// Set-Cookie, WWW-Authenticate, credentials, Date and Content-Length never are.
func DenyHeaders(names ...string) Option {
	return set(func(s *settings) { s.denied = setOf(append(canonical(names), neverStored...)) })
}

// Streaming says which responses are streamed when the handler flushes, by
// their headers: those are passed through and cannot be replayed; for the
// others a flush does nothing and they are recorded. Defaults to all.
func Streaming(is func(http.Header) bool) Option { return set(func(s *settings) { s.streams = is }) }

// CancelWithClient ends the handler's context when the client goes away.
// Without it the work goes on and is stored.
func CancelWithClient() Option { return set(func(s *settings) { s.withClient = true }) }

// MaxPerScope bounds the requests of one scope that are in progress in this
// process; the next one gets 503. 0: no bound. Defaults to 1,000; does not
// apply to Unscoped.
func MaxPerScope(n int) Option { return set(func(s *settings) { s.perScope = n }) }

// Problems sets the beginning of the type of every problem (RFC 9457) and,
// unless empty, the address that a Link with rel="describedby" points to.
func Problems(base, describedBy string) Option {
	return set(func(s *settings) { s.problemBase, s.describedBy = base, describedBy })
}

// Off lets every request of the route pass.
func Off() Option { return set(func(s *settings) { s.off = true }) }

// Route gives the requests that match a pattern of http.ServeMux options of
// their own, on top of the middleware's: Route("PUT /plans/{id}", …) also
// covers PUT there. It must not be nested.
func Route(pattern string, opts ...Option) Option {
	return optionFunc(func(b *builder) { b.routes = append(b.routes, routeOption{pattern, opts}) })
}

func canonical(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = textproto.CanonicalMIMEHeaderKey(name)
	}
	return out
}

// upper keeps a method that is written in lower case from protecting nothing:
// requests carry it in upper case.
func upper(methods []string) []string {
	out := make([]string, len(methods))
	for i, method := range methods {
		out[i] = strings.ToUpper(method)
	}
	return out
}
