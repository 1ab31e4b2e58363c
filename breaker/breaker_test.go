package breaker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/redfence/redfence/observe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("3 of 5 nodes down")

// quorum is a probe whose answer the test sets.
type quorum struct {
	mu     sync.Mutex
	answer func(context.Context) error
	probes int
}

func (q *quorum) set(answer func(context.Context) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answer = answer
}

func (q *quorum) probe(ctx context.Context) error {
	q.mu.Lock()
	q.probes++
	answer := q.answer
	q.mu.Unlock()
	return answer(ctx)
}

func (q *quorum) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.probes
}

func up(context.Context) error   { return nil }
func down(context.Context) error { return errDown }

// log collects events.
type log struct {
	mu     sync.Mutex
	events []observe.Event
}

func (l *log) Observe(e observe.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *log) routes() []observe.RouteChanged {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []observe.RouteChanged
	for _, e := range l.events {
		if r, ok := e.(observe.RouteChanged); ok {
			all = append(all, r)
		}
	}
	return all
}

// states are those that the breaker told, one after the other.
func (l *log) states() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, e := range l.events {
		if c, ok := e.(observe.BreakerChanged); ok {
			all = append(all, c.From+" → "+c.To)
		}
	}
	return all
}

func start(t *testing.T, cfg Config) (*Breaker, *quorum, *log) {
	t.Helper()
	q, events := &quorum{answer: up}, &log{}
	cfg.Observer = events
	if cfg.Probe == nil {
		cfg.Probe = q.probe
	}
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, q, events
}

// attempt makes one attempt that ends as told; false when it was sent away.
func attempt(b *Breaker, noQuorum bool, cause error) bool {
	done, ok := b.Attempt()
	if ok {
		done(noQuorum, cause)
	}
	return ok
}

func open(t *testing.T, b *Breaker) {
	t.Helper()
	for range 3 {
		attempt(b, true, errDown)
	}
	if got := b.Route(); got != observe.Fallback {
		t.Fatalf("after three failures the route is %s", got)
	}
}

func TestOpensAfterThreeFailuresInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, events := start(t, Config{})
		attempt(b, true, errDown)
		attempt(b, true, errDown)
		attempt(b, false, nil) // the row is broken
		attempt(b, true, errDown)
		attempt(b, true, errDown)
		if b.Route() != observe.Primary {
			t.Fatal("opened without three failures in a row")
		}
		attempt(b, true, errDown)
		if b.Route() != observe.Fallback {
			t.Fatal("still closed after three failures in a row")
		}
		if attempt(b, false, nil) {
			t.Error("an attempt was let in while open")
		}
		synctest.Wait()
		want := []observe.RouteChanged{{From: observe.Primary, To: observe.Fallback, Reason: errDown.Error()}}
		if diff := cmp.Diff(want, events.routes()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestClosesAfterThreeCanaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, events := start(t, Config{})
		open(t, b)
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if n := q.count(); n != 0 {
			t.Fatalf("%d canaries within OpenFor", n)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if n := q.count(); n != 1 {
			t.Fatalf("%d canaries right after OpenFor, want 1", n)
		}
		time.Sleep(498 * time.Millisecond)
		synctest.Wait()
		if b.Route() != observe.Fallback {
			t.Fatal("closed before the third canary")
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if b.Route() != observe.Primary || q.count() != 3 {
			t.Fatalf("route %s after %d canaries", b.Route(), q.count())
		}
		time.Sleep(time.Minute)
		if n := q.count(); n != 3 {
			t.Errorf("%d canaries; a closed breaker sends none", n)
		}
		changes := events.routes()
		last := changes[len(changes)-1]
		if last.To != observe.Primary || last.For < time.Second {
			t.Errorf("got %+v", last)
		}
		want := []string{"closed → open", "open → half-open", "half-open → closed"}
		if diff := cmp.Diff(want, events.states()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUsersNeverProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, _ := start(t, Config{})
		q.set(down)
		open(t, b)
		for range 200 { // 10 s, through many half-open moments
			time.Sleep(50 * time.Millisecond)
			if attempt(b, false, nil) {
				t.Fatal("a user's attempt was let in while the quorum was down")
			}
		}
		if q.count() < 10 {
			t.Errorf("%d canaries in 10 s", q.count())
		}
	})
}

func TestI33HangingCanaryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, events := start(t, Config{})
		q.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		open(t, b)
		time.Sleep(5 * time.Second)
		n := q.count()
		if n < 5 {
			t.Fatalf("%d canaries in 5 s while each hangs until its deadline", n)
		}
		q.set(up)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if b.Route() != observe.Primary {
			t.Error("the breaker did not go on after hanging canaries")
		}
		if len(events.routes()) != 2 {
			t.Errorf("routes changed %d times", len(events.routes()))
		}
	})
}

func TestI33CanaryThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, _ := start(t, Config{})
		release := make(chan struct{})
		q.set(func(context.Context) error { <-release; return nil })
		open(t, b)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := q.count(); n != 1 {
			t.Fatalf("%d canaries are piling up", n)
		}
		if b.Route() != observe.Fallback {
			t.Fatal("closed without an answer")
		}
		q.set(up)
		close(release)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if b.Route() != observe.Primary {
			t.Error("the breaker did not go on")
		}
	})
}

func TestCloseDoesNotHangWithTheCanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, _ := start(t, Config{})
		release := make(chan struct{})
		q.set(func(context.Context) error { <-release; return nil })
		open(t, b)
		time.Sleep(600 * time.Millisecond)
		began := time.Now()
		b.Close()
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("Close took %v", took)
		}
		close(release)
	})
}

func TestPanickingCanaryKeepsItOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, _ := start(t, Config{})
		q.set(func(context.Context) error { panic("boom") })
		open(t, b)
		time.Sleep(3 * time.Second)
		if b.Route() != observe.Fallback {
			t.Error("closed by a panic")
		}
		if s := b.Snapshot(); !strings.Contains(s.Reason, "3 of 5 nodes down") || s.State == "closed" {
			t.Errorf("got %+v", s)
		}
	})
}

func TestI34WhatSaysNothingCountsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, events := start(t, Config{})
		for range 50 {
			attempt(b, false, nil)                // taken
			attempt(b, false, context.Canceled)   // the caller went away
			attempt(b, false, errors.New("pool")) // a full local pool
		}
		synctest.Wait()
		if n := len(events.routes()); n != 0 {
			t.Errorf("%d transitions", n)
		}
		// Nor does it break a row of failures.
		attempt(b, true, errDown)
		attempt(b, true, errDown)
		attempt(b, false, context.Canceled)
		attempt(b, true, errDown)
		if b.Route() != observe.Fallback {
			t.Error("a cancellation counted as a success")
		}
	})
}

func TestLateVerdictsAreIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _, _ := start(t, Config{})
		var late []func(bool, error)
		for range 10 {
			done, _ := b.Attempt()
			late = append(late, done)
		}
		open(t, b)
		time.Sleep(3 * time.Second) // closed again
		if b.Route() != observe.Primary {
			t.Fatal("not closed")
		}
		for _, done := range late {
			done(true, errDown)
		}
		if b.Route() != observe.Primary {
			t.Error("verdicts of an earlier generation opened the breaker")
		}
	})
}

func TestForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, q, events := start(t, Config{})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(b.Force(observe.Fallback))
		if attempt(b, false, nil) {
			t.Error("let in although forced to the fallback")
		}
		must(b.Force(""))
		if !attempt(b, false, nil) {
			t.Error("not let in after the override")
		}
		q.set(down)
		open(t, b)
		must(b.Force(observe.Primary))
		for range 10 {
			if !attempt(b, true, errDown) {
				t.Error("sent away although forced to the primary route")
			}
		}
		must(b.Force(""))
		if b.Route() != observe.Fallback {
			t.Error("the state underneath was lost")
		}
		synctest.Wait()
		if n := len(events.routes()); n != 5 {
			t.Errorf("%d changes, want 5: %+v", n, events.routes())
		}
		if err := b.Force("sideways"); err == nil {
			t.Error("accepted an unknown route")
		}
	})
}

func TestConfigReportsAllProblems(t *testing.T) {
	_, err := New(Config{Failures: -1, OpenFor: -1, Every: -1, Successes: -1, ProbeTimeout: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, field := range []string{"Probe", "Failures", "OpenFor", "Every", "Successes", "ProbeTimeout"} {
		if !strings.Contains(err.Error(), field+":") {
			t.Errorf("%q does not name %s", err, field)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Error("more than one line")
	}
}

// TestI23Hysteresis: however attempts end and however the quorum flaps, the
// breaker opens only after Failures in a row and stays open for at least
// OpenFor and two further canaries.
func TestI23Hysteresis(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		flips := rapid.SliceOfN(rapid.Bool(), 1, 200).Draw(rt, "quorum up, per 50 ms")
		perStep := rapid.IntRange(1, 5).Draw(rt, "attempts per step")
		var complaint string
		synctest.Test(t, func(t *testing.T) { complaint = flap(t, flips, perStep) })
		if complaint != "" {
			rt.Fatal(complaint)
		}
	})
}

func flap(t *testing.T, flips []bool, perStep int) string {
	b, q, events := start(t, Config{})
	row := 0
	for _, isUp := range flips {
		q.set(down)
		if isUp {
			q.set(up)
		}
		for range perStep {
			if !attempt(b, !isUp, nil) {
				continue
			}
			if row++; isUp {
				row = 0
			}
			if opened := b.Route() == observe.Fallback; opened != (row >= 3) {
				return "opened without three failures in a row, or did not open after them"
			}
		}
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		if b.Route() == observe.Fallback {
			row = 0
		}
	}
	for _, c := range events.routes() {
		if c.From == observe.Fallback && c.For < 1000*time.Millisecond {
			return "closed after " + c.For.String()
		}
	}
	return ""
}

func TestConcurrentUse(t *testing.T) {
	b, q, _ := start(t, Config{OpenFor: time.Millisecond, Every: time.Millisecond})
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			for n := range 500 {
				attempt(b, (n+i)%7 > 2, errDown)
				b.Snapshot()
				if n%100 == 0 {
					q.set([]func(context.Context) error{up, down}[n/100%2])
				}
			}
		})
	}
	users.Wait()
}

func BenchmarkAttempt(b *testing.B) {
	br, err := New(Config{Probe: up})
	if err != nil {
		b.Fatal(err)
	}
	defer br.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			attempt(br, false, nil)
		}
	})
}
