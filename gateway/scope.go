package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"regexp"

	"github.com/redfence/redfence/redfencehttp"
)

// Scope says whose key a request's is. Exactly one of Unscoped, Header, JWT and
// Basic must be set. Replays are served without asking the upstream, so what
// it relies on must have been verified.
type Scope struct {
	// Unscoped: all callers are one.
	Unscoped bool `yaml:"unscoped"`
	// Header names the tenant or user; the proxy in front of the gateway has
	// authenticated it and sets or removes the header itself.
	Header string `yaml:"header"`
	// Trusted are the networks (CIDR) that such a proxy connects from;
	// requests from elsewhere are refused. Required with Header.
	Trusted []string `yaml:"trusted"`
	// JWT takes it from a claim of a verified bearer token.
	JWT JWT `yaml:"jwt"`
	// Basic takes it from verified basic-auth credentials.
	Basic Basic `yaml:"basic"`
}

// An identifier finds out whose request it is.
type identifier func(*http.Request) (string, error)

var errNotTrusted = errors.New("the request does not come from a trusted proxy, or lacks the scope header")

// resolver returns the option of the scope.
func (s Scope) resolver() (redfencehttp.Option, error) {
	identify, err := s.identify()
	if err != nil {
		return nil, err
	}
	if s.Unscoped {
		return redfencehttp.Unscoped(), nil
	}
	return redfencehttp.Scope((func(*http.Request) (string, error))(identify)), nil
}

func (s Scope) identify() (identifier, error) {
	given := 0
	for _, set := range []bool{s.Unscoped, s.Header != "", s.JWT.given(), s.Basic.given()} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		return nil, errors.New("none; say whose key it is by header, jwt or basic, or unscoped: true when all callers are one")
	case given > 1:
		return nil, errors.New("give one of unscoped, header, jwt and basic")
	case s.Unscoped:
		return func(*http.Request) (string, error) { return "", nil }, nil
	case s.Header != "":
		return s.fromHeader()
	case s.JWT.given():
		return s.JWT.identify()
	}
	return s.Basic.identify()
}

func (s Scope) fromHeader() (identifier, error) {
	if len(s.Trusted) == 0 {
		return nil, errors.New("trusted: none; list the networks that the authenticating proxy connects from, such as 10.0.0.0/8")
	}
	networks := make([]netip.Prefix, len(s.Trusted))
	for i, text := range s.Trusted {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("trusted: %q is no network such as 10.0.0.0/8", text)
		}
		networks[i] = network
	}
	if !headerName.MatchString(s.Header) {
		return nil, fmt.Errorf("header: %q is no name of a header", s.Header)
	}
	return func(r *http.Request) (string, error) {
		values := r.Header.Values(s.Header)
		if len(values) != 1 || values[0] == "" || !from(r, networks) {
			return "", errNotTrusted
		}
		return values[0], nil
	}, nil
}

// headerName is what the name of a header can be (RFC 9110, section 5.1).
var headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// from reports whether the connection comes from one of the networks.
func from(r *http.Request, networks []netip.Prefix) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	for _, n := range networks {
		if n.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}
