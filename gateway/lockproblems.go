package gateway

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/redfence/redfence/lock"
)

// A lockProblem is one way in which the lock API refuses.
type lockProblem struct {
	status int
	name   string // ends the problem's type; stable
	title  string
	detail string
	after  time.Duration // Retry-After; 0: none
}

func (p *lockProblem) Error() string { return p.title }

var (
	errLockScope     = &lockProblem{status: http.StatusForbidden, name: "no-scope", title: "The caller of the request is not known"}
	errLeaseUnknown  = &lockProblem{status: http.StatusNotFound, name: "lease-unknown", title: "This gateway holds no such lease"}
	errLeaseUsed     = &lockProblem{status: http.StatusConflict, name: "lease-used", title: "The lease id belongs to another lock"}
	errLeaseWaits    = &lockProblem{status: http.StatusConflict, name: "lease-waits", title: "An earlier request still waits for this lease", after: time.Second}
	errTooManyLeases = &lockProblem{status: http.StatusTooManyRequests, name: "too-many-leases", title: "The caller holds or waits for too many leases", after: time.Second}
)

func badRequest(detail string) error {
	return &lockProblem{status: http.StatusBadRequest, name: "bad-request", title: "The request is not valid", detail: detail}
}

// lockProblemOf tells an error of the engine. Its text stays here: it may name
// holders and nodes.
func lockProblemOf(err error) *lockProblem {
	var known *lockProblem
	var failed *lock.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, lock.ErrLost), errors.Is(err, lock.ErrNotHeld):
		return &lockProblem{status: http.StatusGone, name: "lease-lost", title: "The lease has ended; another may hold the lock"}
	case errors.Is(err, lock.ErrTaken):
		p := &lockProblem{status: http.StatusConflict, name: "lock-taken", title: "Another holds the lock", after: time.Second}
		if errors.As(err, &failed) && failed.Remaining > 0 {
			p.after = failed.Remaining
		}
		return p
	}
	return &lockProblem{status: http.StatusServiceUnavailable, name: "unavailable", title: "Locks cannot be granted right now", after: time.Second}
}

const problemBase = "https://github.com/redfence/redfence/blob/main/docs/HTTP.md#"

func refuse(w http.ResponseWriter, err error) {
	p := lockProblemOf(err)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.after > 0 {
		h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(p.after.Seconds())))))
	}
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(struct { // the client may be gone
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail,omitempty"`
	}{problemBase + p.name, p.title, p.status, p.detail})
}
