package servers

import (
	"errors"
	"sync"
)

// live holds the servers that have not been closed.
var live = struct {
	mu      sync.Mutex
	servers map[interface{ Close() error }]struct{}
}{servers: map[interface{ Close() error }]struct{}{}}

func register(s interface{ Close() error }) {
	live.mu.Lock()
	defer live.mu.Unlock()
	live.servers[s] = struct{}{}
}

func unregister(s interface{ Close() error }) {
	live.mu.Lock()
	defer live.mu.Unlock()
	delete(live.servers, s)
}

// CloseAll closes every server of this process that is still open. It is for
// the way out: a signal, or the end of a test binary.
func CloseAll() error {
	live.mu.Lock()
	open := make([]interface{ Close() error }, 0, len(live.servers))
	for s := range live.servers {
		open = append(open, s)
	}
	live.mu.Unlock()
	var failed error
	for _, s := range open {
		failed = errors.Join(failed, s.Close())
	}
	return failed
}
