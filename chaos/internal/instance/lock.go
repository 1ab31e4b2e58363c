package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/lock"
)

// Times of plain locks. LockTTL is short enough for a stopped holder to lose
// its lock in a run; RedlockMaxTTL is how long a node that lost its memory
// does not vote.
const (
	LockTTL       = time.Second
	RedlockMaxTTL = 3 * time.Second
	lockWait      = 3 * time.Second
)

// What a request for a lock says, in its query.
const (
	LockerParam = "locker"
	NameParam   = "name"
	HoldParam   = "hold"
)

// locks serves plain locks: acquire, read a register under the lock, take some
// time, write it, release. The register refuses older fences.
type locks struct {
	service *Service
	lockers map[string]lock.Locker
}

func (l *locks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	locker := l.lockers[query.Get(LockerParam)]
	hold, err := time.ParseDuration(query.Get(HoldParam))
	if locker == nil || err != nil {
		http.Error(w, "which locker, held for how long?", http.StatusBadRequest)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lockWait)
	defer cancel()
	lease, err := locker.Acquire(ctx, query.Get(NameParam), lock.WithTTL(LockTTL))
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	h := &holder{to: l.service.Recorder, lease: lease, line: history.Effect{
		Key: query.Get(NameParam), Locker: query.Get(LockerParam), Fence: lease.Fence(), Instance: l.service.Name, Execution: rand.Text(),
	}}
	if err := h.work(context.WithoutCancel(r.Context()), hold); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// holder works under a lock that it holds.
type holder struct {
	to    *recorder.Client
	lease lock.Lease
	line  history.Effect
}

func (h *holder) work(ctx context.Context, hold time.Duration) (err error) {
	_, err = h.tell(ctx, history.Acquired)
	if err == nil {
		err = h.increment(ctx, hold)
	}
	_, told := h.tell(ctx, history.Releasing)
	return errors.Join(err, told, h.lease.Release(ctx))
}

// increment adds one to the register; it goes on when the lease ends
// meanwhile, as a holder that does not notice would, and leaves it to the
// register to refuse it.
func (h *holder) increment(ctx context.Context, hold time.Duration) error {
	read, err := h.tell(ctx, history.ReadSlot)
	if err != nil || read.Refused {
		return err
	}
	if err := pause(ctx, hold); err != nil {
		return err
	}
	h.line.Value = read.Value + 1
	_, err = h.tell(ctx, history.WriteSlot)
	return err
}

// tell records a line with the present time and validity.
func (h *holder) tell(ctx context.Context, kind string) (history.Effect, error) {
	h.line.Kind = kind
	now := time.Now()
	h.line.Clock = recorder.Clock()
	h.line.Valid = h.line.Clock + h.lease.ValidUntil().Sub(now)
	return h.to.Record(ctx, h.line)
}
