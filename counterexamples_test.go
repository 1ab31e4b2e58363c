package redfence

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/lock"
)

// after an adoption (fail-over) take-overs and lapses rest until
// takeover_after. A duplicate of a lapsed key must not spin at the ledger.
func TestRestingTakeOversAreWaitedFor(t *testing.T) {
	for name, policy := range map[string]Policy{"hold": testPolicy(), "retry": retryPolicy()} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			in := c.start(t, nil)
			key := Key{ID: "k"}.in(doNamespace)
			_, err := in.ledger.Postgres.Claim(t.Context(), fallback.ClaimRequest{Key: key, Digest: key.Digest(), Token: fallback.NewToken(), Policy: policy.withDefaults().stored()})
			must(t, err)
			conn, err := pgx.Connect(t.Context(), c.postgres.URL())
			must(t, err)
			defer conn.Close(context.Background())
			_, err = conn.Exec(t.Context(), "UPDATE idempotency_meta SET takeover_after = clock_timestamp() + interval '1 hour'")
			must(t, err)
			time.Sleep(testLease + 50*time.Millisecond)
			var writes atomic.Int64
			in.pg.OnWrite(func([]byte) { writes.Add(1) })
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			defer stop()
			var work counter
			began := time.Now()
			_, err = in.Do(ctx, Request{ID: "k", Policy: noWait(policy)}, work.handle)
			if took := time.Since(began); took > time.Second || writes.Load() > 50 {
				t.Errorf("spins: %v, %d sends", took, writes.Load())
			}
			work.want(t, 0)
		})
	}
}

// lateCommits delay what follows a COMMIT that has happened.
type lateCommits struct {
	*fallback.Postgres
	committed, goOn chan struct{}
}

type lateCommit struct {
	pgx.Tx
	l *lateCommits
}

func (l *lateCommits) BeginTx(ctx context.Context, o pgx.TxOptions, idle time.Duration) (pgx.Tx, error) {
	tx, err := l.Postgres.BeginTx(ctx, o, idle)
	return &lateCommit{tx, l}, err
}

func (l *lateCommits) CompleteTx(ctx context.Context, tx pgx.Tx, c fallback.Completion) error {
	return l.Postgres.CompleteTx(ctx, tx.(*lateCommit).Tx, c)
}

func (t *lateCommit) Commit(ctx context.Context) error {
	err := t.Tx.Commit(ctx)
	close(t.l.committed)
	<-t.l.goOn // the reply is late
	return err
}

// DoTx: the commit is in the ledger and another instance has answered it
// as durable; a duplicate here must not get "in progress".
func TestDoTxIsNotInProgressAfterItsCommit(t *testing.T) {
	c := newCluster(t)
	l := &lateCommits{committed: make(chan struct{}), goOn: make(chan struct{})}
	a := c.start(t, func(cfg *Config) {
		l.Postgres = cfg.Ledger.(*faultyLedger).Postgres
		cfg.Ledger = l
	})
	b := c.start(t, nil)
	newAccounts(t, c)
	var g sync.WaitGroup
	g.Go(func() {
		res, err := a.DoTx(context.Background(), Request{ID: "k"}, transfer)
		if err != nil || res.Outcome != Executed {
			t.Errorf("%v %v", res, err)
		}
	})
	<-l.committed
	res, err := b.DoTx(t.Context(), Request{ID: "k", Policy: noWait(testPolicy())}, transfer)
	wantResult(t, res, err, Replayed, "done")
	res, err = a.DoTx(t.Context(), Request{ID: "k", Policy: noWait(testPolicy())}, transfer)
	close(l.goOn)
	g.Wait()
	wantResult(t, res, err, Replayed, "done")
}

// readOnlyLedger refuses claims as a server does whose disk is full.
type readOnlyLedger struct {
	*fallback.Memory
	claims atomic.Int64
}

func (l *readOnlyLedger) Claim(context.Context, fallback.ClaimRequest) (fallback.Verdict, error) {
	l.claims.Add(1)
	return fallback.Verdict{}, fallback.ErrUnavailable
}

// FailOpen with a ledger that can be read and not written: an answer.
func TestFailOpenWithALedgerThatCanBeRead(t *testing.T) {
	l := &readOnlyLedger{Memory: fallback.NewMemory()}
	e := newMemoryEngine(t, func(cfg *Config) { cfg.Ledger = l; cfg.Policy.FailOpen = true; cfg.Policy.Wait = NoWait })
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var work counter
	began := time.Now()
	_, err := e.Do(ctx, Request{ID: "k"}, work.handle)
	wantErr(t, err, ErrLedgerUnavailable)
	if time.Since(began) > time.Second {
		t.Error("went round until its context ended")
	}
}

// MaxAttempts is a bound on starts; a take-over that starts nothing (the
// caller is gone) must not reset it.
func TestMaxAttemptsOutlivesClaimsThatStartNothing(t *testing.T) {
	m := fallback.NewMemory()
	e := newMemoryEngine(t, func(cfg *Config) {
		cfg.Ledger = &vanishingCaller{Memory: m}
		cfg.Policy = retryPolicy()
		cfg.Policy.MaxAttempts = 2
	})
	key := Key{ID: "k"}.in(doNamespace)
	p := retryPolicy()
	p.MaxAttempts = 2
	die := func() { // an owner that starts the handler and dies
		v, err := m.Claim(t.Context(), fallback.ClaimRequest{Key: key, Digest: key.Digest(), Token: fallback.NewToken(), Policy: p.stored()})
		must(t, err)
		if v.Granted == nil {
			t.Fatalf("%+v", v.Row)
		}
		time.Sleep(testLease + 20*time.Millisecond)
	}
	die() // start 1
	ctx, cancel := context.WithCancel(t.Context())
	l := e.ledger.(*vanishingCaller)
	l.then = cancel // the caller goes while the take-over is on its way
	_, err := e.Do(ctx, Request{ID: "k"}, new(counter).handle)
	wantErr(t, err, context.Canceled)
	l.then = nil
	_, err = e.Do(t.Context(), Request{ID: "k"}, func(_ context.Context, ex *Execution) (Response, error) {
		if ex.Attempt() != 2 {
			t.Errorf("attempt %d after one start that left no outcome, want 2", ex.Attempt())
		}
		return Response{}, nil
	})
	must(t, err)
}

type vanishingCaller struct {
	*fallback.Memory
	then func()
}

func (l *vanishingCaller) TakeOver(ctx context.Context, r fallback.ClaimRequest, fence int64) (fallback.Verdict, error) {
	v, err := l.Memory.TakeOver(ctx, r, fence)
	if l.then != nil {
		l.then()
	}
	return v, err
}

// a follower with a fingerprint must not share the verdict of a leader
// that has none: R2.
func TestFollowerOfALeaderWithoutFingerprint(t *testing.T) {
	m := &slowReads{Memory: fallback.NewMemory(), in: make(chan struct{}, 10), out: make(chan struct{})}
	e := newMemoryEngine(t, func(cfg *Config) { cfg.Ledger = m; cfg.NearCache = -1 })
	fp := func(s string) Fingerprint { return Fingerprint{Version: 1, Sum: []byte(s)} }
	_, err := e.Do(t.Context(), Request{ID: "k", Fingerprint: fp("A")}, func(context.Context, *Execution) (Response, error) {
		return Response{Body: []byte("A's")}, nil
	})
	must(t, err)
	must(t, e.ForceRoute("fallback"))
	m.slow.Store(true)
	go e.Do(context.Background(), Request{ID: "k"}, new(counter).handle) // leads
	<-m.in
	got := make(chan error, 1)
	var res Result
	go func() {
		var err error
		res, err = e.Do(context.Background(), Request{ID: "k", Fingerprint: fp("B")}, new(counter).handle)
		got <- err
	}()
	time.Sleep(100 * time.Millisecond)
	close(m.out)
	if err := <-got; !errors.Is(err, ErrMismatch) {
		t.Errorf("request B got %q, %v; want ErrMismatch", res.Response.Body, err)
	}
}

// a call whose key is looked up for another request, which may be the wrong
// one, is not told that its own is: the row tells.
func TestMismatchIsTheRowsToTell(t *testing.T) {
	m := &slowReads{Memory: fallback.NewMemory(), in: make(chan struct{}, 10), out: make(chan struct{})}
	e := newMemoryEngine(t, func(cfg *Config) { cfg.Ledger = m; cfg.NearCache = -1 })
	ask := func(request string) (Result, error) {
		fp := Fingerprint{Version: 1, Sum: []byte(request)}
		return e.Do(t.Context(), Request{ID: "k", Fingerprint: fp}, func(context.Context, *Execution) (Response, error) {
			return Response{Body: []byte(request)}, nil
		})
	}
	_, err := ask("right")
	must(t, err)
	must(t, e.ForceRoute("fallback"))
	m.slow.Store(true)
	var group sync.WaitGroup
	group.Go(func() {
		_, err := ask("wrong") // leads
		if !errors.Is(err, ErrMismatch) {
			t.Errorf("the wrong request: %v", err)
		}
	})
	<-m.in
	group.Go(func() {
		res, err := ask("right")
		if err != nil || string(res.Response.Body) != "right" {
			t.Errorf("the right request: %q, %v", res.Response.Body, err)
		}
	})
	select {
	case <-m.in: // it reads the row, and not the other call
	case <-time.After(patience):
		t.Error("the right request did not look itself")
	}
	close(m.out)
	group.Wait()
}

type slowReads struct {
	*fallback.Memory
	slow    atomic.Bool
	in, out chan struct{}
}

func (l *slowReads) Read(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	if l.slow.Load() {
		l.in <- struct{}{}
		<-l.out
	}
	return l.Memory.Read(ctx, d)
}

// a hook's decision survives its caller.
func TestRecoveryIsRecordedWhenItsCallerIsGone(t *testing.T) {
	m := fallback.NewMemory()
	e := newMemoryEngine(t, func(cfg *Config) { cfg.Ledger = m })
	key := Key{ID: "k"}.in(doNamespace)
	p := testPolicy()
	p.Lease, p.MaxProcessing = minLease, minLease
	_, err := m.Claim(t.Context(), fallback.ClaimRequest{Key: key, Digest: key.Digest(), Token: fallback.NewToken(), Policy: p.stored()})
	must(t, err)
	time.Sleep(minLease + fallback.Margin + 50*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	p.Recover = func(context.Context, UnknownKey) (Recovery, error) {
		cancel()
		return Recovery{Response: &Response{Body: []byte("charged")}}, nil
	}
	_, err = e.Do(ctx, Request{ID: "k", Policy: &p}, new(counter).handle)
	row, err := m.Read(t.Context(), key.Digest())
	must(t, err)
	if row.State != fallback.Completed {
		t.Errorf("the hook said what happened, and the row is %v", row.State)
	}
}

// Close ends the renewals of leases that were not released.
func TestCloseEndsRenewals(t *testing.T) {
	m := fallback.NewMemory()
	e := newMemoryEngine(t, func(cfg *Config) { cfg.Ledger = m })
	_, err := e.Acquire(t.Context(), "l", lock.WithTTL(minLease))
	must(t, err)
	must(t, e.Close(t.Context()))
	time.Sleep(5 * minLease)
	row, err := m.Read(t.Context(), Key{ID: "l"}.in(lockNamespace).Digest())
	must(t, err)
	if !row.Lapsed() {
		t.Errorf("%v after Close the lease is still renewed (TTL %v)", 5*minLease, minLease)
	}
}

// one hook at a time: its time begins when the ledger gave it.
func TestRecoveryHookKeepsItsTerm(t *testing.T) {
	m := fallback.NewMemory()
	e := newMemoryEngine(t, func(cfg *Config) { cfg.Ledger = &lateReply{m} })
	key := Key{ID: "k"}.in(doNamespace)
	p := testPolicy()
	p.Lease, p.MaxProcessing = minLease, minLease
	_, err := m.Claim(t.Context(), fallback.ClaimRequest{Key: key, Digest: key.Digest(), Token: fallback.NewToken(), Policy: p.withDefaults().stored()})
	must(t, err)
	time.Sleep(minLease + fallback.Margin + 50*time.Millisecond)
	p.Recover = func(ctx context.Context, _ UnknownKey) (Recovery, error) {
		row, err := m.Read(ctx, key.Digest())
		must(t, err)
		deadline, _ := ctx.Deadline()
		if over := time.Until(deadline) - row.RecoverUntil.Sub(row.Now); over > 0 {
			t.Errorf("the hook may run %v longer than it has the key to itself", over)
		}
		return Recovery{}, nil
	}
	_, err = e.Do(t.Context(), Request{ID: "k", Policy: &p}, new(counter).handle)
	wantErr(t, err, ErrUnknownOutcome)
}

type lateReply struct{ *fallback.Memory }

func (l *lateReply) BeginRecovery(ctx context.Context, d fallback.Digest, fence int64, term time.Duration) (fallback.Record, error) {
	r, err := l.Memory.BeginRecovery(ctx, d, fence, term)
	time.Sleep(500 * time.Millisecond)
	return r, err
}

// what Inspect returns is the caller's: changing it must not change
// what duplicates get.
func TestInspectSharesNothing(t *testing.T) {
	e := newMemoryEngine(t, nil)
	_, err := e.Do(t.Context(), Request{ID: "k"}, new(counter).handle)
	must(t, err)
	rec, err := e.Inspect(t.Context(), Key{ID: "k"})
	must(t, err)
	rec.Stored.Body[0] = 'X'
	res, err := e.Do(t.Context(), Request{ID: "k"}, new(counter).handle)
	wantResult(t, res, err, Replayed, "run 1")
}
