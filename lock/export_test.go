package lock

import (
	"testing"
	"time"
)

// Freeze keeps a lease from being renewed, as if its holder had stopped, and
// waits until it has lapsed on the nodes as well.
func Freeze(t testing.TB, lease Lease) {
	h := lease.(*held)
	h.freeze()
	<-h.Done()
	eventually(t, 10*time.Second, func() error {
		s, err := h.r.Inspect(t.Context(), h.name)
		if err == nil && s.token == h.token {
			err = ErrTaken
		}
		return err
	})
}
