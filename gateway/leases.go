package gateway

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/redfence/redfence/lock"
)

// A leaseKey names a lease: nobody can name one of another scope.
type leaseKey struct{ scope, id string }

func newLeaseID() string { return rand.Text() }

// leases are those of one gateway, with the requests that wait for one.
type leases struct {
	mu       sync.Mutex
	byID     map[leaseKey]*held
	perScope map[string]int
}

// A held is one lease, or a request that waits for one while lease is nil.
// Whatever happens to its client, it ends: it is released when its client has
// not renewed it for its TTL.
type held struct {
	key    leaseKey
	name   string
	leases *leases

	mu      sync.Mutex
	lease   lock.Lease
	ttl     time.Duration
	until   time.Time // when it expires unless it is renewed
	expiry  *time.Timer
	expired bool
}

// begin makes room for a lease, or returns the one that the same client holds
// under the same id.
func (l *leases) begin(key leaseKey, name string, limit int) (h *held, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.byID[key]; h != nil {
		if h.name != name {
			return nil, false, errLeaseUsed
		}
		return h, false, nil
	}
	if l.perScope[key.scope] >= limit {
		return nil, false, errTooManyLeases
	}
	h = &held{key: key, name: name, leases: l}
	l.byID[key] = h
	l.perScope[key.scope]++
	return h, true, nil
}

func (l *leases) find(key leaseKey, name string) *held {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.byID[key]; h != nil && h.name == name {
		return h
	}
	return nil
}

// drop forgets a lease; it may be called again.
func (l *leases) drop(h *held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID[h.key] != h {
		return
	}
	delete(l.byID, h.key)
	if l.perScope[h.key.scope]--; l.perScope[h.key.scope] == 0 {
		delete(l.perScope, h.key.scope)
	}
}

// granted starts the clock of a lease. It starts after the client's own, which
// counts from its request, so it never ends before it.
func (l *leases) granted(h *held, lease lock.Lease, ttl time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lease, h.ttl, h.until = lease, ttl, time.Now().Add(ttl)
	h.expiry = time.AfterFunc(ttl, h.expire)
}

// expire releases a lease that its client has not renewed. It may have waited
// for a renewal that came in time.
func (h *held) expire() {
	h.mu.Lock()
	h.expired = !time.Now().Before(h.until)
	expired := h.expired
	h.mu.Unlock()
	if !expired {
		return
	}
	h.leases.drop(h)
	ctx, cancel := context.WithTimeout(context.Background(), extendFor)
	defer cancel()
	_ = h.release(ctx) // it lapses by itself when the ledger cannot be told
}

// extend renews the lease and starts its clock anew.
func (h *held) extend(ctx context.Context) (lock.Lease, time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.lease == nil:
		return nil, 0, errLeaseWaits
	case h.expired:
		return nil, 0, lock.ErrLost
	}
	if err := h.lease.Extend(ctx); err != nil {
		return nil, 0, err
	}
	h.until = time.Now().Add(h.ttl)
	h.expiry.Reset(h.ttl)
	return h.lease, validFor(h.lease, h.ttl), nil
}

// release gives the lock back.
func (h *held) release(ctx context.Context) error {
	h.mu.Lock()
	lease, expiry := h.lease, h.expiry
	h.mu.Unlock()
	if lease == nil {
		return errLeaseWaits
	}
	expiry.Stop()
	return lease.Release(ctx)
}

// validFor is what the client may rely on: its TTL, or less if less of the
// lease is left.
func validFor(lease lock.Lease, ttl time.Duration) time.Duration {
	return max(0, min(ttl, time.Until(lease.ValidUntil())))
}
