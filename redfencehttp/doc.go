// Package redfencehttp protects HTTP handlers: a request that carries an
// idempotency key runs its handler once, and every duplicate gets the recorded
// response.
//
//	mw, err := redfencehttp.New(engine, redfencehttp.IETF(), redfencehttp.Scope(tenantOf))
//	http.Handle("/charges", mw.Wrap(charges))
//
// Put it behind the application's authentication: whoever reaches it may ask
// for the responses of its scope.
//
// # Guarantees
//
// Those of the engine, and:
//
//   - The first client gets exactly what the handler wrote.
//   - A response leaves only after its record is settled. What cannot be
//     recorded (streamed, too large, hijacked) is passed through in full, the
//     ledger told before its first byte; duplicates get 409.
//   - A duplicate of something unfinished never gets a 2xx.
//   - Nothing the middleware writes or returns shows a key or a body.
//
// # Caveats
//
// A response is held back until the handler has returned. Trailers reach the
// first client only. The body of a request with a key is read into memory,
// up to MaxRequest.
//
// # When not to use
//
// In front of long-lived streams, and of handlers whose effect is the response
// itself.
package redfencehttp
