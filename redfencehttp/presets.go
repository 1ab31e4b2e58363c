package redfencehttp

import (
	"fmt"
	"net/http"

	"github.com/redfence/redfence"
)

// IETF follows draft-ietf-httpapi-idempotency-key-header (an expired draft, not
// a standard): 409 with Retry-After for a key in flight, 422 for another
// request under the same key.
//
// Responses from 200 to 499 are stored, except 401, 403, 408, 409, 413, 425
// and 429, after which a retry runs again. After a 5xx, a panic or the death of
// the process nobody knows whether the work was done: the key is held, and
// duplicates get 409 (outcome-unknown) until somebody decides: without a hook
// (Recover) that is an operator (redfence resolve, or Engine.Resolve). A route
// whose effect is deduplicated downstream says OnAbandoned(redfence.Retry) and
// gives a Dispose of its own instead.
func IETF() Option {
	return preset("IETF", func(s *settings) {
		s.dispose = ietfDisposition
		s.panics = Unknown
	})
}

func ietfDisposition(status int) Disposition {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusConflict,
		http.StatusRequestEntityTooLarge, http.StatusTooEarly, http.StatusTooManyRequests:
		return Released
	}
	if status >= 500 {
		return Unknown
	}
	return Stored
}

// Stripe follows what Stripe documents: every outcome is stored once the
// handler has begun, 5xx and panics too, except 401, 429 and what the handler
// declares Released (a validation that failed before anything happened).
// 409 for a key in flight, 400 for another request under the same key.
func Stripe() Option {
	return preset("Stripe", func(s *settings) {
		s.mismatch = http.StatusBadRequest
		s.dispose = stripeDisposition
		s.panics = Stored
	})
}

func stripeDisposition(status int) Disposition {
	if status == http.StatusUnauthorized || status == http.StatusTooManyRequests {
		return Released
	}
	return Stored
}

// Webhook is for receivers of webhooks, whose senders retry until they see a
// 2xx: 429 with Retry-After for a key in flight (the 95th percentile of how long
// the route's last 128 executions took, 5 s until there were 16); 2xx and 3xx are stored, and
// after anything else, the death of the process included, the next delivery
// runs again. At least once: the handler's effect should be deduplicated by
// the key, or be refused under an older fence.
func Webhook() Option {
	return preset("Webhook", func(s *settings) {
		s.inFlight = http.StatusTooManyRequests
		s.busy = webhookBusy
		s.policy.OnAbandoned = redfence.Retry
		s.dispose = webhookDisposition
		s.panics = Released
	})
}

func webhookDisposition(status int) Disposition {
	if status < 400 {
		return Stored
	}
	return Released
}

func webhookBusy(retryAfter int) []byte {
	return fmt.Appendf(nil, `{"error":"Request is currently being processed","retry_after":%d}`, retryAfter)
}
