package gateway

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/redfence/redfence/lock"
)

// openAPI describes the paths under /-/ (OpenAPI 3.1).
//
//go:embed openapi.json
var openAPI []byte

const (
	maxLockBody = 4 << 10
	maxLockName = 255
	minLeaseID  = 16
	maxLeaseID  = 64
	// extendFor bounds one renewal or release at the ledger.
	extendFor = 10 * time.Second
)

// A lockAPI gives other languages the engine's locks. A lease lives in the
// gateway that granted it, for as long as its client renews it.
type lockAPI struct {
	cfg      Locks
	identify identifier
	locker   lock.Locker
	leases   leases
}

func newLockAPI(cfg Locks, locker lock.Locker) *lockAPI {
	cfg = cfg.withDefaults()
	identify, _ := cfg.Scope.identify() // checked before
	return &lockAPI{cfg: cfg, identify: identify, locker: locker, leases: leases{byID: map[leaseKey]*held{}, perScope: map[string]int{}}}
}

func (a *lockAPI) register(mux *http.ServeMux) {
	mux.HandleFunc("POST /-/locks/{name}", a.acquire)
	mux.HandleFunc("PUT /-/locks/{name}/{lease}", a.renew)
	mux.HandleFunc("DELETE /-/locks/{name}/{lease}", a.release)
}

// acquireBody is what a client asks for.
type acquireBody struct {
	TTL   int64  `json:"ttl_ms"`
	Wait  int64  `json:"wait_ms"`
	Lease string `json:"lease"`
}

// grant is what it gets.
type grant struct {
	Name  string `json:"name"`
	Lease string `json:"lease"`
	Fence int64  `json:"fence"`
	// ValidFor counts from the moment at which the client sent its request.
	ValidFor int64 `json:"valid_for_ms"`
}

func (a *lockAPI) acquire(w http.ResponseWriter, r *http.Request) {
	key, ask, err := a.parse(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	h, fresh, err := a.leases.begin(key, r.PathValue("name"), a.cfg.MaxPerScope)
	switch {
	case err != nil:
		refuse(w, err)
		return
	case !fresh: // the client sends again what it got no answer to
		a.extend(w, r, h)
		return
	}
	ttl := time.Duration(ask.TTL) * time.Millisecond
	lease, err := a.take(r.Context(), lockName(key.scope, h.name), ttl, time.Duration(ask.Wait)*time.Millisecond)
	if err != nil {
		a.leases.drop(h)
		refuse(w, err)
		return
	}
	valid := validFor(lease, ttl)
	a.leases.granted(h, lease, ttl)
	respond(w, http.StatusOK, grant{h.name, key.id, lease.Fence(), valid.Milliseconds()})
}

// take waits for the lock, at most as long as asked for.
func (a *lockAPI) take(ctx context.Context, name string, ttl, wait time.Duration) (lock.Lease, error) {
	if wait <= 0 {
		return a.locker.TryAcquire(ctx, name, lock.WithTTL(ttl))
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return a.locker.Acquire(ctx, name, lock.WithTTL(ttl))
}

func (a *lockAPI) renew(w http.ResponseWriter, r *http.Request) {
	h, err := a.find(r)
	if err != nil {
		refuse(w, err)
		return
	}
	a.extend(w, r, h)
}

// extend renews a lease that is held. One that is lost is never taken again
// under the same name: its client must see that it was without the lock.
func (a *lockAPI) extend(w http.ResponseWriter, r *http.Request, h *held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), extendFor)
	defer cancel()
	lease, valid, err := h.extend(ctx)
	if err != nil {
		if errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrNotHeld) {
			a.leases.drop(h)
		}
		refuse(w, err)
		return
	}
	respond(w, http.StatusOK, grant{h.name, h.key.id, lease.Fence(), valid.Milliseconds()})
}

func (a *lockAPI) release(w http.ResponseWriter, r *http.Request) {
	h, err := a.find(r)
	if err != nil {
		refuse(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), extendFor)
	defer cancel()
	a.leases.drop(h)
	if err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrLost) {
		refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *lockAPI) find(r *http.Request) (*held, error) {
	scope, err := a.identify(r)
	if err != nil {
		return nil, errLockScope
	}
	h := a.leases.find(leaseKey{scope, r.PathValue("lease")}, r.PathValue("name"))
	if h == nil {
		return nil, errLeaseUnknown
	}
	return h, nil
}

// parse reads and bounds what is asked for.
func (a *lockAPI) parse(w http.ResponseWriter, r *http.Request) (leaseKey, acquireBody, error) {
	scope, err := a.identify(r)
	if err != nil {
		return leaseKey{}, acquireBody{}, errLockScope
	}
	ask := acquireBody{TTL: min(10_000, a.cfg.MaxTTL.Milliseconds())}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxLockBody))
	body.DisallowUnknownFields()
	if err := body.Decode(&ask); err != nil {
		return leaseKey{}, ask, badRequest("the body must be JSON with ttl_ms, wait_ms and lease, all optional")
	}
	if ask.Lease == "" {
		ask.Lease = newLeaseID()
	}
	switch name := r.PathValue("name"); {
	case name == "" || len(name) > maxLockName:
		err = badRequest("the name must have 1 to 255 bytes")
	case len(ask.Lease) < minLeaseID || len(ask.Lease) > maxLeaseID || !isPlain(ask.Lease):
		err = badRequest("lease must be 16 to 64 letters, digits, - and _, drawn at random")
	case ask.TTL < minTTL.Milliseconds() || ask.TTL > a.cfg.MaxTTL.Milliseconds():
		err = badRequest("ttl_ms must be from 100 to " + strconv.FormatInt(a.cfg.MaxTTL.Milliseconds(), 10))
	case ask.Wait < 0 || ask.Wait > a.cfg.MaxWait.Milliseconds():
		err = badRequest("wait_ms must be from 0 to " + strconv.FormatInt(a.cfg.MaxWait.Milliseconds(), 10))
	}
	return leaseKey{scope, ask.Lease}, ask, err
}

func isPlain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// lockName keeps the names of two scopes apart, whatever they are.
func lockName(scope, name string) string {
	return "http:" + strconv.Itoa(len(scope)) + ":" + scope + ":" + name
}
