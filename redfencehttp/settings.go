package redfencehttp

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/internal/problems"
)

// settings are what the options of one route add up to.
type settings struct {
	preset string
	policy redfence.Policy
	off    bool

	headers  []string // canonical
	keyFrom  func(*http.Request, []byte) (string, error)
	required bool
	scope    func(*http.Request) (string, error)
	unscoped bool
	perScope int
	methods  map[string]bool

	fingerprint FingerprintVersion
	maxRequest  int64
	maxResponse int

	inFlight, mismatch, expired int
	busy                        func(retryAfter int) []byte // nil: problem details

	dispose       func(status int) Disposition
	panics        Disposition
	withoutBodies bool
	allowed       map[string]bool // nil: all that are not denied
	denied        map[string]bool
	streams       func(http.Header) bool
	withClient    bool

	problemBase string
	describedBy string
}

const (
	defaultMaxRequest  = 1 << 20
	defaultMaxResponse = 1<<20 - 4<<10 // leaves room for the record around it
	defaultPerScope    = 1000
	defaultProblemBase = "https://github.com/redfence/redfence/blob/main/docs/HTTP.md#"
)

// defaults are what every preset begins with.
func defaults() settings {
	return settings{
		policy:      redfence.Policy{Wait: redfence.NoWait},
		headers:     []string{"Idempotency-Key", "X-Idempotency-Key"},
		perScope:    defaultPerScope,
		methods:     setOf([]string{http.MethodPost, http.MethodPatch}),
		fingerprint: RawBody,
		maxRequest:  defaultMaxRequest,
		maxResponse: defaultMaxResponse,
		inFlight:    http.StatusConflict,
		mismatch:    http.StatusUnprocessableEntity,
		expired:     http.StatusConflict,
		denied:      setOf(neverStored),
		streams:     func(http.Header) bool { return true },
		problemBase: defaultProblemBase,
	}
}

func setOf(names []string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// check reports every problem of the route.
func (s *settings) check(list *problems.List, where string) {
	bad := func(ok bool, format string, args ...any) {
		if !ok {
			list.Add(where+format, args...)
		}
	}
	bad(s.scope != nil, "no scope: give Scope(func) with the authenticated tenant or user, or say Unscoped() when all callers are one")
	bad(s.keyFrom != nil || len(s.headers) > 0, "Headers: none")
	bad(s.fingerprint == RawBody || s.fingerprint == CanonicalJSON, "Fingerprint: unknown version %d", s.fingerprint)
	bad(s.maxRequest > 0, "MaxRequest: %d; must be positive", s.maxRequest)
	bad(s.maxResponse > 0, "MaxResponse: %d; must be positive", s.maxResponse)
	bad(s.perScope >= 0, "MaxPerScope: %d is negative", s.perScope)
	for name, status := range map[string]int{"InFlight": s.inFlight, "Mismatch": s.mismatch, "Expired": s.expired} {
		bad(status >= 400 && status <= 599, "%s: status %d; use one from 400 to 599", name, status)
	}
	bad(len(s.methods) > 0, "Methods: none; say Off() when every request is to pass")
	for method := range s.methods {
		bad(isToken(method), "Methods: %q is no method of HTTP", method)
		bad(!safe[method], "Methods: %s has no effect to protect and always passes", method)
	}
	for option, names := range map[string][]string{
		"Headers": s.headers, "AllowHeaders": slices.Collect(maps.Keys(s.allowed)), "DenyHeaders": slices.Collect(maps.Keys(s.denied)),
	} {
		for _, name := range names {
			bad(isToken(name), "%s: %q is no name of a header", option, name)
		}
	}
	bad(s.policy.OnError == redfence.ErrorUnknown, "Policy.OnError has no meaning here; use Dispose")
	if err := s.policy.Validate(); err != nil {
		for _, problem := range problems.All(err) {
			list.Add("%s%w", where, problem)
		}
	}
}

// isToken reports whether text can be a method or the name of a header (RFC
// 9110, section 5.6.2): what cannot would match no request.
func isToken(text string) bool {
	return text != "" && strings.Trim(text, tokenBytes) == ""
}

const tokenBytes = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// safe methods always pass.
var safe = setOf([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace})
