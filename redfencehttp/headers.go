package redfencehttp

import (
	"net/http"
	"slices"
	"strings"
)

// Headers that the middleware sets.
const (
	// ReplayedHeader marks a response that was replayed: "true".
	ReplayedHeader = "Idempotent-Replayed"
	// FenceHeader carries the fence of the claim that made the response.
	FenceHeader = "Redfence-Fence"
	// DurableHeader is "false" on a response that duplicates will not get.
	DurableHeader = "Redfence-Durable"
)

// neverStored are response headers that belong to one exchange: hop-by-hop
// (RFC 9110, 7.6.1), credentials, and what is made anew for each replay.
var neverStored = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info",
	"Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Authorization", "Authentication-Info",
	"Date", "Content-Length",
	ReplayedHeader, FenceHeader, DurableHeader,
}

// storable returns the headers to record: what the handler has set or changed
// since the outer middleware had its turn, less what is never stored.
func (s *settings) storable(sent, outer http.Header) map[string][]string {
	named := connectionNames(sent)
	kept := make(map[string][]string, len(sent))
	for name, values := range sent {
		switch {
		case s.denied[name], s.allowed != nil && !s.allowed[name]:
		case strings.HasPrefix(name, http.TrailerPrefix), slices.Contains(named, name):
		case isOuter(name, values, outer):
		default:
			kept[name] = values
		}
	}
	return kept
}

func isOuter(name string, values []string, outer http.Header) bool {
	before, had := outer[name]
	return had && slices.Equal(before, values)
}

// connectionNames are the headers that Connection makes hop-by-hop.
func connectionNames(h http.Header) []string {
	var names []string
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			names = append(names, http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}

// bodyAllowed follows RFC 9110, 6.4.1.
func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// headerSize is about what the headers take in a record.
func headerSize(h http.Header) int {
	n := 0
	for name, values := range h {
		n += len(name) + 4
		for _, value := range values {
			n += len(value) + 3
		}
	}
	return n
}
