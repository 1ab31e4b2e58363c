package redfencehttp

import (
	"slices"
	"sync"
	"time"
)

const (
	// samples is how many executions the moving percentile looks back on.
	samples = 128
	// enough is how many it needs before it says anything.
	enough = 16
	// defaultRetryAfter is said until then, in seconds.
	defaultRetryAfter = 5
)

// latency is how long the last executions of a route took.
type latency struct {
	mu   sync.Mutex
	last [samples]time.Duration
	n    int
}

func (l *latency) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[l.n%samples] = d
	l.n++
}

// retryAfter is the 95th percentile in whole seconds, at least 1.
func (l *latency) retryAfter() int {
	l.mu.Lock()
	n := min(l.n, samples)
	last := l.last
	l.mu.Unlock()
	if n < enough {
		return defaultRetryAfter
	}
	slices.Sort(last[:n])
	p95 := last[n*95/100]
	return max(1, int((p95+time.Second-1)/time.Second))
}
