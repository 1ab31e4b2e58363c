// Package conformance is a suite of requests and the answers that they must
// get, for any server that protects HTTP requests by idempotency keys.
//
// The server under test has [App] behind its protection, without a route of its
// own in between. Go servers call [Run] from a test; any other one is pointed
// at by URL:
//
//	go test github.com/redfence/redfence/redfencehttp/conformance -url http://127.0.0.1:8080 -preset ietf
//
// App can be built into a program of its own: it is a http.Handler.
package conformance
