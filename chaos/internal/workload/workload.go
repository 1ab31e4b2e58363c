// Package workload is the clients of a chaos run: fresh keys, and duplicates
// sent at the same time, later, during outages and after them. It keeps every
// request as its client saw it.
package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Options say what to send where.
type Options struct {
	// Instances are the base URLs of the engine instances.
	Instances []string
	// Seed decides keys, duplicates, work times and instances.
	Seed uint64
	// Clock gives the time of the run.
	Clock func() time.Duration
	// KeysPerSecond is the rate of fresh keys.
	KeysPerSecond int
	// LatePerSecond is the rate of late duplicates.
	LatePerSecond int
}

const (
	mostUnderWay   = 200              // keys at once
	patience       = 20 * time.Second // of a client that retries
	requestTimeout = 10 * time.Second
	minBackoff     = 20 * time.Millisecond
	maxBackoff     = 120 * time.Millisecond
	finalClients   = 16
)

// Load is a running workload. It is safe for concurrent use.
type Load struct {
	options Options
	client  *http.Client

	mu           sync.Mutex // guards what follows
	random       *rand.Rand
	ops          []history.Op
	keys         int
	acknowledged []string // keys with a durable answer
	known        map[string]bool
	answered     int // ops with a handler's response
}

// New returns a workload that has not begun.
func New(o Options) *Load {
	transport := &http.Transport{MaxIdleConnsPerHost: mostUnderWay, DisableCompression: true}
	return &Load{
		options: o, client: &http.Client{Transport: transport, Timeout: requestTimeout},
		random: rand.New(rand.NewPCG(o.Seed, 0x6c6f6164)), known: map[string]bool{},
	}
}

// plan is what one key will be sent, drawn before it begins.
type plan struct {
	key       string
	work      time.Duration
	instances []int // of the first request and its duplicates
}

// Run sends fresh keys and late duplicates until ctx is done, then waits until
// every request under way has an answer or its client has lost patience.
func (l *Load) Run(ctx context.Context) {
	var group sync.WaitGroup
	slots := make(chan struct{}, mostUnderWay)
	work := context.WithoutCancel(ctx)
	group.Go(func() {
		every(ctx, l.options.KeysPerSecond, func() {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			p := l.draw()
			group.Go(func() {
				defer func() { <-slots }()
				l.begin(work, p)
			})
		})
	})
	group.Go(func() {
		every(ctx, l.options.LatePerSecond, func() {
			if key, instance, ok := l.drawLate(); ok {
				group.Go(func() { l.until(work, history.Late, key, 0, instance) })
			}
		})
	})
	group.Wait()
}

func every(ctx context.Context, perSecond int, do func()) {
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// draw plans the next key: most handlers are quick, some are slow enough for
// duplicates to meet them at work.
func (l *Load) draw() plan {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys++
	p := plan{key: fmt.Sprintf("%d-%06d", l.options.Seed, l.keys)}
	switch n := l.random.IntN(10); {
	case n < 6:
	case n < 9:
		p.work = time.Duration(l.random.IntN(10)) * time.Millisecond
	default:
		p.work = time.Duration(50+l.random.IntN(250)) * time.Millisecond
	}
	for range 1 + l.random.IntN(3) {
		p.instances = append(p.instances, l.random.IntN(len(l.options.Instances)))
	}
	return p
}

// drawLate picks a key that was acknowledged: any, or one of the latest.
func (l *Load) drawLate() (key string, instance int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.acknowledged)
	if n == 0 {
		return "", 0, false
	}
	oldest := 0
	if l.random.IntN(3) == 0 {
		oldest = max(0, n-20)
	}
	return l.acknowledged[oldest+l.random.IntN(n-oldest)], l.random.IntN(len(l.options.Instances)), true
}

// begin sends the first request of a key and its duplicates at once.
func (l *Load) begin(ctx context.Context, p plan) {
	var group sync.WaitGroup
	for i, instance := range p.instances {
		kind := history.Duplicate
		if i == 0 {
			kind = history.Fresh
		}
		group.Go(func() { l.until(ctx, kind, p.key, p.work, instance) })
	}
	group.Wait()
}

// until repeats a request, each time at the next instance, until it gets a
// response of the handler or the client's patience ends.
func (l *Load) until(ctx context.Context, kind, key string, work time.Duration, instance int) {
	end := l.options.Clock() + patience
	for {
		op := l.send(ctx, kind, key, work, instance)
		if op.OK() || ctx.Err() != nil || l.options.Clock() > end {
			return
		}
		pause(ctx, l.backoff())
		instance = (instance + 1) % len(l.options.Instances)
	}
}

func (l *Load) backoff() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return minBackoff + time.Duration(l.random.Int64N(int64(maxBackoff-minBackoff)))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (l *Load) keep(op history.Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
	if !op.OK() {
		return
	}
	l.answered++
	if op.Durable && !l.known[op.Key] {
		l.known[op.Key] = true
		l.acknowledged = append(l.acknowledged, op.Key)
	}
}

// Final asks for every acknowledged key once more.
func (l *Load) Final(ctx context.Context) {
	keys := make(chan string)
	var group sync.WaitGroup
	for range finalClients {
		group.Go(func() {
			for key := range keys {
				l.until(ctx, history.Final, key, 0, l.anyInstance())
			}
		})
	}
	for _, key := range l.Acknowledged() {
		keys <- key
	}
	close(keys)
	group.Wait()
}

// Probe sends a fresh key to one instance and reports its answer.
func (l *Load) Probe(ctx context.Context, instance int) history.Op {
	l.mu.Lock()
	l.keys++
	key := fmt.Sprintf("%d-%06d-probe", l.options.Seed, l.keys)
	l.mu.Unlock()
	return l.send(ctx, history.Probe, key, 0, instance)
}

func (l *Load) anyInstance() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(len(l.options.Instances))
}

// Acknowledged returns the keys that have a durable answer.
func (l *Load) Acknowledged() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.acknowledged...)
}

// Ops returns every request that was answered or given up so far.
func (l *Load) Ops() []history.Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]history.Op(nil), l.ops...)
}

// Counts returns keys begun, requests ended, and those of them that got a
// handler's response.
func (l *Load) Counts() (keys, requests, answered int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keys, len(l.ops), l.answered
}

// Close gives idle connections back.
func (l *Load) Close() { l.client.CloseIdleConnections() }
