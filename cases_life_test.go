package redfence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

func TestI09HandlerLongerThanItsLease(t *testing.T) {
	for _, policy := range []Policy{testPolicy(), retryPolicy()} {
		t.Run(policy.OnAbandoned.String(), func(t *testing.T) {
			c := newCluster(t)
			a, b := c.start(t, nil), c.start(t, nil)
			work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
			var group sync.WaitGroup
			group.Go(func() {
				res, err := a.Do(t.Context(), Request{ID: "long", Policy: &policy}, work.handle)
				wantResult(t, res, err, Executed, "run 1")
			})
			<-work.begun
			for end := time.Now().Add(3 * testLease); time.Now().Before(end); {
				_, err := b.Do(t.Context(), Request{ID: "long", Policy: noWait(policy)}, work.handle)
				wantErr(t, err, ErrInProgress)
			}
			close(work.block)
			group.Wait()
			work.want(t, 1)
			if n := a.events.count("claim_lost"); n != 0 {
				t.Errorf("%d lost signals", n)
			}
		})
	}
}

func TestI10DuplicateGivesUp(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	var group sync.WaitGroup
	group.Go(func() {
		res, err := a.Do(t.Context(), Request{ID: "k"}, work.handle)
		wantResult(t, res, err, Executed, "run 1")
	})
	<-work.begun
	for _, in := range []*instance{a, b} {
		ctx, stop := context.WithTimeout(t.Context(), testLease)
		_, err := in.Do(ctx, Request{ID: "k"}, work.handle)
		stop()
		wantErr(t, err, ErrInProgress)
		wantErr(t, err, context.DeadlineExceeded)
		bounded := testPolicy()
		bounded.Wait = testLease
		_, err = in.Do(t.Context(), Request{ID: "k", Policy: &bounded}, work.handle)
		wantErr(t, err, ErrInProgress)
	}
	close(work.block)
	group.Wait()
	res, err := b.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	work.want(t, 1)
}

func TestI11LedgerCutOffBeforeCompletion(t *testing.T) {
	for name, cut := range map[string]time.Duration{"less than the lease": testLease / 3, "more than the lease": 3 * testLease} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 200 * time.Millisecond })
			var work counter
			res, err := in.Do(t.Context(), Request{ID: "k"}, func(ctx context.Context, ex *Execution) (Response, error) {
				in.pg.Cut()
				return work.handle(ctx, ex)
			})
			must(t, err)
			if res.Durable || string(res.Response.Body) != "run 1" || res.Outcome != Executed {
				t.Fatalf("%v %q durable %v; want the real response, not durable", res.Outcome, res.Response.Body, res.Durable)
			}
			_, err = in.Do(t.Context(), Request{ID: "k"}, work.handle)
			wantErr(t, err, ErrLedgerUnavailable)
			must(t, sleep(t.Context(), cut))
			in.pg.Heal()
			eventually(t, "the late completion", func() bool {
				res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
				return err == nil && res.Outcome == Replayed && string(res.Response.Body) == "run 1"
			})
			work.want(t, 1)
			if n := in.events.count("not_durable"); n != 1 {
				t.Errorf("%d not_durable events, want 1", n)
			}
		})
	}
}

func TestI13StoppedPastItsLease(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.Policy = retryPolicy() })
	stale := c.child(t, childSpec{ID: "k", Policy: retryPolicy()})
	if line := stale.line(); line != "started 1 1" {
		t.Fatalf("child: %q", line)
	}
	must(t, stale.cmd.Process.Signal(syscall.SIGSTOP))
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	must(t, stale.cmd.Process.Signal(syscall.SIGCONT))
	wantResult(t, res, err, Executed, "run 1")
	if line := stale.line(); line != "cancelled "+ErrClaimLost.Error() {
		t.Errorf("child: %q; want its context cancelled: claim lost", line)
	}
	if line := stale.line(); line != "result executed stale not durable" {
		t.Errorf("child: %q; want its completion refused", line)
	}
	res, err = in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
}

func lostReply(notAfter time.Time) func(fallback.Verdict, error) (fallback.Verdict, error) {
	return func(_ fallback.Verdict, err error) (fallback.Verdict, error) {
		return fallback.Verdict{}, &fallback.UnconfirmedError{NotAfter: notAfter, Err: errors.Join(errCut, err)}
	}
}

func TestI29LostReplyOfTheClaim(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	in.ledger.hook(func(f *faultyLedger) { f.claim = lostReply(time.Now().Add(time.Minute)) })
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	work.want(t, 1)
}

func TestI30UnlockDelayed(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	key := Key{ID: "k"}.in(doNamespace).Digest().String()
	var work counter
	res, err := a.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	_, err = a.locks.TryAcquire(t.Context(), key) // as if it had not been released
	eventually(t, "the lock is held again", func() bool {
		if err != nil {
			_, err = a.locks.TryAcquire(t.Context(), key)
		}
		return err == nil
	})
	copies := int64(len(c.nodes)/2 + 1)
	eventually(t, "the puts have landed and are gone again", func() bool { // nor the cache filled
		for _, n := range c.nodes {
			gone, _ := n.Client().Del(t.Context(), "rf1:{"+key+"}:c").Result()
			copies -= gone
		}
		return copies == 0
	})
	res, err = b.Do(t.Context(), Request{ID: "k", Policy: noWait(testPolicy())}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	if n := b.events.count("db_fallback_recovered"); n != 1 {
		t.Errorf("%d db_fallback_recovered events, want 1", n)
	}
}

func TestI34ContentionDoesNotTripTheBreaker(t *testing.T) {
	c := newCluster(t)
	engines := []*instance{c.start(t, nil), c.start(t, nil)}
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() {
			if _, err := engines[i%2].Do(t.Context(), Request{ID: "hot"}, work.handle); err != nil {
				t.Error(err)
			}
		})
	}
	<-work.begun
	for i := range 50 {
		_, err := engines[i%2].Do(t.Context(), Request{ID: "hot", Policy: noWait(testPolicy())}, work.handle)
		if err != nil {
			wantErr(t, err, ErrInProgress)
		}
	}
	close(work.block)
	group.Wait()
	for _, in := range engines {
		if n := in.events.count("route_changed"); n != 0 {
			t.Errorf("%d route changes", n)
		}
	}
	work.want(t, 1)
}

func TestI38OldOwnersPutComesLate(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	short := testPolicy()
	short.MaxProcessing, short.Retention = short.Lease, short.Lease
	var work counter
	_, err := a.Do(t.Context(), Request{ID: "k", Policy: &short}, work.handle)
	must(t, err)
	old, err := a.Inspect(t.Context(), Key{ID: "k"})
	must(t, err)
	eventually(t, "the newer completion", func() bool {
		res, err := b.Do(t.Context(), Request{ID: "k"}, work.handle)
		return err == nil && string(res.Response.Body) == "run 2"
	})
	call, err := a.newCall(t.Context(), Request{ID: "k"}, Handler(work.handle))
	must(t, err)
	a.put(call, &old.Record) // the put of the first owner, late
	for range 20 {
		for _, in := range []*instance{a, b} {
			res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
			wantResult(t, res, err, Replayed, "run 2")
		}
	}
}

func TestI39OperatorDecidesBeforeTheOwner(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	operator := c.start(t, nil)
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	in.ledger.hook(func(f *faultyLedger) {
		f.before = func(method string) error {
			if method == "renew" {
				return errCut
			}
			return nil
		}
	})
	var group sync.WaitGroup
	group.Go(func() {
		res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
		must(t, err)
		if res.Durable || string(res.Response.Body) != "run 1" {
			t.Errorf("owner: %q durable %v; want its own response, not durable", res.Response.Body, res.Durable)
		}
	})
	<-work.begun
	decided := Response{Status: 200, Body: []byte("decided")}
	eventually(t, "the operator decides", func() bool {
		err := operator.Resolve(t.Context(), Key{ID: "k"}, Resolution{Response: &decided, Who: "test", Why: "the effect is there"})
		return err == nil
	})
	close(work.block)
	group.Wait()
	res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Replayed, "decided")
}

func TestI41LedgerSilentAfterTheClaim(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 200 * time.Millisecond })
	in.ledger.hook(func(f *faultyLedger) {
		lost := lostReply(time.Now().Add(time.Second))
		f.claim = func(v fallback.Verdict, err error) (fallback.Verdict, error) {
			in.pg.Cut()
			return lost(v, err)
		}
	})
	var work counter
	_, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantErr(t, err, ErrLedgerUnavailable)
	work.want(t, 0)
	must(t, sleep(t.Context(), 2*testLease)) // the claim that nobody knows of lapses
	in.ledger.hook(func(f *faultyLedger) { f.claim = nil })
	in.pg.Heal()
	eventually(t, "the key is served", func() bool {
		res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
		return err == nil && string(res.Response.Body) == "run 1"
	})
	work.want(t, 1)
}

func TestI44TheRowsPolicyDecides(t *testing.T) {
	c := newCluster(t)
	dead := c.child(t, childSpec{ID: "held", Policy: testPolicy()})
	if line := dead.line(); !strings.HasPrefix(line, "started") {
		t.Fatalf("child: %q", line)
	}
	dead.kill()
	finder := c.start(t, func(cfg *Config) { cfg.Policy = retryPolicy() })
	var work counter
	_, err := finder.Do(t.Context(), Request{ID: "held"}, work.handle)
	wantErr(t, err, ErrUnknownOutcome)
	work.want(t, 0)
}

func TestI45LedgerOutageOfThreeLeases(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.LedgerTimeout = 200 * time.Millisecond })
	const keys = 30
	var started, finished sync.WaitGroup
	var runs atomic.Int64
	release := make(chan struct{})
	started.Add(keys)
	for i := range keys {
		finished.Go(func() {
			res, err := in.Do(t.Context(), Request{ID: fmt.Sprint(i)}, func(context.Context, *Execution) (Response, error) {
				runs.Add(1)
				started.Done()
				<-release
				return Response{Body: fmt.Append(nil, i)}, nil
			})
			if err != nil || string(res.Response.Body) != fmt.Sprint(i) {
				t.Errorf("key %d: %q %v", i, res.Response.Body, err)
			}
		})
	}
	started.Wait()
	in.pg.Cut()
	close(release)
	finished.Wait()
	must(t, sleep(t.Context(), 3*testLease))
	in.pg.Heal()
	for i := range keys {
		eventually(t, "every key is completed", func() bool {
			rec, err := in.Inspect(t.Context(), Key{ID: fmt.Sprint(i)})
			return err == nil && rec.State == fallback.Completed && string(rec.Stored.Body) == fmt.Sprint(i)
		})
	}
	if runs.Load() != keys {
		t.Errorf("%d starts, want %d", runs.Load(), keys)
	}
}

func TestI49RunningPastItsRetention(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	policy := testPolicy()
	policy.Retention = testLease
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	var group sync.WaitGroup
	group.Go(func() {
		res, err := a.Do(t.Context(), Request{ID: "k", Policy: &policy}, work.handle)
		wantResult(t, res, err, Executed, "run 1")
	})
	<-work.begun
	for end := time.Now().Add(3 * policy.Retention); time.Now().Before(end); {
		_, err := b.Do(t.Context(), Request{ID: "k", Policy: noWait(policy)}, work.handle)
		wantErr(t, err, ErrInProgress)
	}
	close(work.block)
	group.Wait()
	work.want(t, 1)
}

func TestI52HandlerThatKillsItsProcess(t *testing.T) {
	c := newCluster(t)
	policy := retryPolicy()
	policy.MaxAttempts, policy.Lease = 3, 2*time.Second // no attempt may come too late
	for attempt := 1; attempt <= 3; attempt++ {
		ch := c.child(t, childSpec{ID: "poison", Policy: policy, Die: true})
		line := ch.line()
		if !strings.HasSuffix(line, fmt.Sprint(" ", attempt)) || !strings.HasPrefix(line, "started") {
			t.Fatalf("child %d: %q", attempt, line)
		}
		ch.kill()
	}
	in := c.start(t, func(cfg *Config) { cfg.Policy = policy })
	var work counter
	_, err := in.Do(t.Context(), Request{ID: "poison"}, work.handle)
	wantErr(t, err, ErrUnknownOutcome)
	work.want(t, 0)
}

func TestI56OwnerAcceptedAfterAFinder(t *testing.T) {
	c := newCluster(t)
	in, finder := c.start(t, nil), c.start(t, nil)
	in.ledger.hook(func(f *faultyLedger) {
		f.before = func(method string) error {
			if method == "renew" {
				return errCut
			}
			return nil
		}
	})
	var work counter
	waitUnknown := func(ctx context.Context) {
		eventually(t, "a finder marks it unknown", func() bool {
			_, err := finder.Do(ctx, Request{ID: "k", Policy: noWait(testPolicy())}, work.handle)
			return errors.Is(err, ErrUnknownOutcome)
		})
	}
	_, err := in.Do(t.Context(), Request{ID: "k"}, func(ctx context.Context, ex *Execution) (Response, error) {
		waitUnknown(ctx)
		<-ex.Lost()
		return Response{}, Undone(errors.New("nothing happened"))
	})
	if err == nil || err.Error() != "nothing happened" {
		t.Fatalf("error %v", err)
	}
	res, err := in.Do(t.Context(), Request{ID: "k"}, func(ctx context.Context, ex *Execution) (Response, error) {
		waitUnknown(ctx)
		return Response{Body: []byte("mine")}, nil
	})
	wantResult(t, res, err, Executed, "mine")
	res, err = finder.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Replayed, "mine")
	work.want(t, 0)
}

func TestRouteIsReported(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	must(t, in.ForceRoute(observe.Fallback))
	var work counter
	res, err := in.Do(t.Context(), Request{ID: "k"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
	if res.Route != observe.Fallback {
		t.Errorf("route %q", res.Route)
	}
	must(t, in.ForceRoute(""))
	res, err = in.Do(t.Context(), Request{ID: "other"}, work.handle)
	wantResult(t, res, err, Executed, "run 2")
	if res.Route != observe.Primary {
		t.Errorf("route %q", res.Route)
	}
}

// TestWaiterIsAnsweredByTheCache: on the primary route a waiter for the lock's
// holder is woken by the release and finds the response in the cache; it asks
// the ledger for nothing.
func TestWaiterIsAnsweredByTheCache(t *testing.T) {
	c := newCluster(t)
	a, b := c.start(t, nil), c.start(t, nil)
	var asked atomic.Int64
	b.ledger.hook(func(f *faultyLedger) {
		f.before = func(string) error { asked.Add(1); return nil }
	})
	without := 0
	for i := range 10 {
		req := Request{ID: fmt.Sprint("k", i)}
		work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
		var group sync.WaitGroup
		group.Go(func() {
			_, err := a.Do(t.Context(), req, work.handle)
			must(t, err)
		})
		<-work.begun
		before := asked.Load()
		group.Go(func() {
			res, err := b.Do(t.Context(), req, work.handle)
			wantResult(t, res, err, Replayed, "run 1")
		})
		time.Sleep(60 * time.Millisecond) // b has subscribed
		close(work.block)
		group.Wait()
		if asked.Load() == before {
			without++
		}
	}
	if without < 5 {
		t.Errorf("%d of 10 waiters did without the ledger", without)
	}
}
