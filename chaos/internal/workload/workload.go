// Package workload is the clients of a chaos run: fresh keys, and duplicates
// sent at the same time, later, during outages and after them. It keeps every
// request as its client saw it.
package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// Options say what to send where.
type Options struct {
	// Instances are the base URLs of the engine instances; of another service
	// the whole URLs, with their paths.
	Instances []string
	// Prefix of the keys.
	Prefix string
	// Seed decides keys, duplicates, work times and instances.
	Seed uint64
	// Clock gives the time of the run.
	Clock func() time.Duration
	// KeysPerSecond is the rate of fresh keys.
	KeysPerSecond int
	// LatePerSecond is the rate of late duplicates.
	LatePerSecond int
	// Lease of the instances' claims: some handlers work for longer.
	Lease time.Duration
	// Transfers says that instances serve DoTx.
	Transfers bool
	// Lockers are those that instances serve plain locks of.
	Lockers []string
}

const (
	mostUnderWay   = 200              // keys at once
	patience       = 20 * time.Second // of a client that retries
	requestTimeout = 10 * time.Second
	minBackoff     = 20 * time.Millisecond
	maxBackoff     = 120 * time.Millisecond
	finalClients   = 64
)

// Load is a running workload. It is safe for concurrent use.
type Load struct {
	options Options
	client  *http.Client

	mu           sync.Mutex // guards what follows
	random       *rand.Rand
	ops          []history.Op
	keys         int
	begun        []plan // of every key but the probes
	acknowledged []plan // of the keys with a durable answer
	known        map[string]bool
	locked       int // requests for locks that were granted
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
			l.mu.Lock()
			l.begun = append(l.begun, p)
			l.mu.Unlock()
			group.Go(func() {
				defer func() { <-slots }()
				l.begin(work, p)
			})
		})
	})
	group.Go(func() {
		every(ctx, l.options.LatePerSecond, func() {
			if p, instance, ok := l.drawLate(); ok {
				group.Go(func() { l.until(work, history.Late, p, instance) })
			}
		})
	})
	for _, locker := range l.options.Lockers {
		for client := range lockClients {
			group.Go(func() { l.lock(ctx, locker, client) })
		}
	}
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

// drawLate picks a key that was acknowledged: any, or one of the latest.
func (l *Load) drawLate() (p plan, instance int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.acknowledged)
	if n == 0 {
		return plan{}, 0, false
	}
	oldest := 0
	if l.random.IntN(3) == 0 {
		oldest = max(0, n-20)
	}
	return l.acknowledged[oldest+l.random.IntN(n-oldest)], l.random.IntN(len(l.options.Instances)), true
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

func (l *Load) keep(op history.Op, p plan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops = append(l.ops, op)
	if !op.OK() {
		return
	}
	l.answered++
	if op.Durable && !l.known[op.Key] {
		l.known[op.Key] = true
		l.acknowledged = append(l.acknowledged, p)
	}
}

// Final asks for every key once more: those that were acknowledged must have
// the same answer, and the others get one now that nothing is broken.
func (l *Load) Final(ctx context.Context) {
	keys := make(chan plan)
	var group sync.WaitGroup
	for range finalClients {
		group.Go(func() {
			for p := range keys {
				l.until(ctx, history.Final, p, l.anyInstance())
			}
		})
	}
	l.mu.Lock()
	all := slices.Clone(l.begun)
	l.mu.Unlock()
	for _, p := range all {
		keys <- p
	}
	close(keys)
	group.Wait()
}

// Probe sends a fresh key to one instance and reports its answer.
func (l *Load) Probe(ctx context.Context, instance int) history.Op {
	l.mu.Lock()
	l.keys++
	key := fmt.Sprintf("%s-%06d-probe", l.options.Prefix, l.keys)
	l.mu.Unlock()
	return l.send(ctx, history.Probe, plan{key: key}, instance)
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
	keys := make([]string, len(l.acknowledged))
	for i, p := range l.acknowledged {
		keys[i] = p.key
	}
	return keys
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
