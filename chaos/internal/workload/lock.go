package workload

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/redfence/redfence/chaos/internal/instance"
)

// Clients of plain locks. Some share a name, so that they wait for one
// another; some hold it for longer than its TTL.
const (
	lockClients  = 4
	lockNames    = 2
	lockPause    = 300 * time.Millisecond
	chanceOfHeld = 0.03
)

// lock asks for locks, one after the other, until ctx is done. What came of
// them the recorder knows; a client that gets none tries again.
func (l *Load) lock(ctx context.Context, locker string, client int) {
	name := fmt.Sprintf("%s-%d", locker, client%lockNames)
	for ctx.Err() == nil {
		hold, number := l.drawHold()
		query := url.Values{instance.LockerParam: {locker}, instance.NameParam: {name}, instance.HoldParam: {hold.String()}}
		if l.askLock(context.WithoutCancel(ctx), l.options.Instances[number]+"/lock?"+query.Encode()) {
			l.mu.Lock()
			l.locked++
			l.mu.Unlock()
		}
		pause(ctx, lockPause)
	}
}

func (l *Load) drawHold() (hold time.Duration, number int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	hold = time.Duration(l.random.IntN(20)) * time.Millisecond
	if l.random.Float64() < chanceOfHeld {
		hold = instance.LockTTL + instance.LockTTL/2
	}
	return hold, l.random.IntN(len(l.options.Instances))
}

// askLock does one request and reports whether the lock was held.
func (l *Load) askLock(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return false
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err == nil && resp.StatusCode == http.StatusOK
}
