package redfence

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/fallback"
)

func TestResponseIsReplayedWhole(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	want := Response{Status: 201, Header: map[string][]string{"Link": {"<a>", "<b>"}, "Location": {"/orders/1"}}, Body: []byte("créé\x00")}
	for i, outcome := range []Outcome{Executed, Replayed} {
		res, err := engine.Do(t.Context(), Request{ID: "k"}, func(context.Context, *Execution) (Response, error) { return want, nil })
		must(t, err)
		if res.Outcome != outcome || res.Fence == 0 || !res.Durable {
			t.Errorf("call %d: %+v", i, res)
		}
		if diff := cmp.Diff(want, res.Response); diff != "" {
			t.Errorf("call %d: %s", i, diff)
		}
	}
}

func TestHandlerErrors(t *testing.T) {
	boom := errors.New("boom")
	policy := func(on OnError) *Policy { p := testPolicy(); p.OnError = on; return &p }
	tests := []struct {
		name   string
		policy *Policy
		err    error
		again  func(t *testing.T, res Result, err error) // what a duplicate gets
		state  State
	}{
		{"plain: unknown", nil, boom, func(t *testing.T, _ Result, err error) { wantErr(t, err, ErrUnknownOutcome) }, fallback.Unknown},
		{"undone: runs again", nil, Undone(boom), ranAgain, fallback.Completed},
		{"stored: replayed", nil, Store(boom), gotStored, fallback.Completed},
		{"plain, policy releases", policy(ErrorReleases), boom, ranAgain, fallback.Completed},
		{"plain, policy stores", policy(ErrorStores), boom, gotStored, fallback.Completed},
		{"stored whatever the policy", policy(ErrorReleases), Store(boom), gotStored, fallback.Completed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			engine := newMemoryEngine(t, nil)
			res, err := engine.Do(t.Context(), Request{ID: "k", Policy: tt.policy}, func(context.Context, *Execution) (Response, error) {
				return Response{}, tt.err
			})
			if !errors.Is(err, boom) || res.Outcome != Executed {
				t.Fatalf("first: %v, %v", res.Outcome, err)
			}
			res, err = engine.Do(t.Context(), Request{ID: "k", Policy: tt.policy}, new(counter).handle)
			tt.again(t, res, err)
			rec, err := engine.Inspect(t.Context(), Key{ID: "k"})
			must(t, err)
			if rec.State != tt.state {
				t.Errorf("state %v, want %v", rec.State, tt.state)
			}
		})
	}
}

func ranAgain(t *testing.T, res Result, err error) { wantResult(t, res, err, Executed, "run 1") }

func gotStored(t *testing.T, res Result, err error) {
	var stored *StoredError
	if !errors.As(err, &stored) || stored.Text != "boom" || res.Outcome != Replayed {
		t.Errorf("%v, %v; want the stored error", res.Outcome, err)
	}
}

func TestPanicIsPassedOnAndRecorded(t *testing.T) {
	for name, tt := range map[string]struct {
		leave func()
		on    OnError
		state State
	}{
		"panic":           {func() { panic("boom") }, ErrorUnknown, fallback.Unknown},
		"panic, releases": {func() { panic("boom") }, ErrorReleases, fallback.Released},
		"Goexit":          {runtime.Goexit, ErrorUnknown, fallback.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			engine := newMemoryEngine(t, nil)
			policy := testPolicy()
			policy.OnPanic = tt.on
			var group sync.WaitGroup
			begun := make(chan struct{})
			group.Go(func() {
				defer func() { _ = recover() }()
				_, _ = engine.Do(t.Context(), Request{ID: "k", Policy: &policy}, func(context.Context, *Execution) (Response, error) {
					close(begun)
					tt.leave()
					return Response{}, nil
				})
				t.Error("Do returned")
			})
			<-begun
			group.Wait()
			rec, err := engine.Inspect(t.Context(), Key{ID: "k"})
			must(t, err)
			if rec.State != tt.state || !strings.Contains(rec.Reason, "panic") {
				t.Errorf("state %v, reason %q; want %v", rec.State, rec.Reason, tt.state)
			}
		})
	}
}

func TestFollowersShareTheVerdict(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	var group sync.WaitGroup
	outcomes := make(chan Outcome, 21)
	call := func() {
		res, err := engine.Do(t.Context(), Request{ID: "k"}, work.handle)
		if err != nil || string(res.Response.Body) != "run 1" || !res.Durable {
			t.Errorf("%q %v", res.Response.Body, err)
		}
		res.Response.Body[0] = 'X' // what one caller does to its response is its own
		outcomes <- res.Outcome
	}
	group.Go(call)
	<-work.begun
	for range 20 {
		group.Go(call)
	}
	_, err := engine.Do(t.Context(), Request{ID: "k", Policy: noWait(testPolicy())}, work.handle)
	wantErr(t, err, ErrInProgress)
	close(work.block)
	group.Wait()
	close(outcomes)
	count := map[Outcome]int{}
	for o := range outcomes {
		count[o]++
	}
	if count[Executed] != 1 {
		t.Errorf("outcomes %v, want one executed", count)
	}
	work.want(t, 1)
}

func TestMismatch(t *testing.T) {
	for name, secrets := range map[string][]Secret{"plain": nil, "keyed": {{ID: 7, Key: []byte("0123456789abcdef")}}} {
		t.Run(name, func(t *testing.T) {
			engine := newMemoryEngine(t, func(c *Config) { c.Secrets = secrets })
			work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
			one, two := Fingerprint{Version: 1, Sum: []byte("one")}, Fingerprint{Version: 1, Sum: []byte("two")}
			var group sync.WaitGroup
			group.Go(func() {
				_, err := engine.Do(t.Context(), Request{ID: "k", Fingerprint: one}, work.handle)
				must(t, err)
			})
			<-work.begun
			_, err := engine.Do(t.Context(), Request{ID: "k", Fingerprint: two}, work.handle)
			wantErr(t, err, ErrMismatch)
			close(work.block)
			group.Wait()
			_, err = engine.Do(t.Context(), Request{ID: "k", Fingerprint: two}, work.handle)
			wantErr(t, err, ErrMismatch)

			newer := Fingerprint{Version: 2, Sum: []byte("zwei"), Other: func(v uint8) ([]byte, bool) { return []byte("one"), v == 1 }}
			res, err := engine.Do(t.Context(), Request{ID: "k", Fingerprint: newer}, work.handle)
			wantResult(t, res, err, Replayed, "run 1")
			newer.Other = nil // another algorithm, which this binary cannot compute: in doubt, not a mismatch
			_, err = engine.Do(t.Context(), Request{ID: "k", Fingerprint: newer}, work.handle)
			wantErr(t, err, ErrInDoubt)
			if errors.Is(err, ErrMismatch) {
				t.Error("a mismatch, although nobody can tell")
			}
			work.want(t, 1)
		})
	}
}

func TestMaxProcessing(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	policy := Policy{Lease: 100 * time.Millisecond, MaxProcessing: 300 * time.Millisecond}
	_, err := engine.Do(t.Context(), Request{ID: "k", Policy: &policy}, func(ctx context.Context, ex *Execution) (Response, error) {
		<-ctx.Done()
		return Response{}, context.Cause(ctx)
	})
	wantErr(t, err, ErrMaxProcessing)
	_, err = engine.Do(t.Context(), Request{ID: "k"}, new(counter).handle)
	wantErr(t, err, ErrUnknownOutcome)
}

func TestTooLargeIsNotRunAgain(t *testing.T) {
	engine := newMemoryEngine(t, func(c *Config) { c.MaxResponse = 100 })
	big := []byte(strings.Repeat("x", 101))
	for i := range big {
		big[i] = byte(i * 37) // does not compress
	}
	res, err := engine.Do(t.Context(), Request{ID: "k"}, func(context.Context, *Execution) (Response, error) {
		return Response{Body: big}, nil
	})
	must(t, err)
	if res.Durable || len(res.Response.Body) != len(big) {
		t.Errorf("durable %v, %d bytes; want the whole response, not durable", res.Durable, len(res.Response.Body))
	}
	_, err = engine.Do(t.Context(), Request{ID: "k"}, new(counter).handle)
	if err == nil {
		t.Error("a duplicate got an answer")
	}
}

func TestTyped(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	type receipt struct{ Number, hidden int }
	work := func(context.Context, *Execution) (receipt, error) { return receipt{7, 8}, nil }
	own, err := Do(t.Context(), engine, Request{ID: "k"}, work)
	must(t, err)
	replayed, err := Do(t.Context(), engine, Request{ID: "k"}, work)
	must(t, err)
	if own != (receipt{7, 8}) || replayed != (receipt{7, 0}) {
		t.Errorf("own %v, replayed %v", own, replayed)
	}
	_, err = Do(t.Context(), engine, Request{ID: "k"}, func(context.Context, *Execution) (string, error) { return "", nil })
	wantErr(t, err, ErrNotReplayable)
}

func TestCloseDrains(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	var group sync.WaitGroup
	group.Go(func() {
		res, err := engine.Do(t.Context(), Request{ID: "k"}, work.handle)
		wantResult(t, res, err, Executed, "run 1")
	})
	<-work.begun
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	err := engine.Close(ctx)
	wantErr(t, err, context.DeadlineExceeded)
	if !strings.Contains(err.Error(), "1 executions") {
		t.Errorf("%v does not say what is still under way", err)
	}
	_, err = engine.Do(t.Context(), Request{ID: "other"}, work.handle)
	wantErr(t, err, ErrClosed)
	close(work.block)
	group.Wait()
}

func TestOverloaded(t *testing.T) {
	engine := newMemoryEngine(t, func(c *Config) { c.MaxInFlight = 1 })
	work := counter{block: make(chan struct{}), begun: make(chan struct{}, 1)}
	var group sync.WaitGroup
	group.Go(func() { _, _ = engine.Do(t.Context(), Request{ID: "k"}, work.handle) })
	<-work.begun
	_, err := engine.Do(t.Context(), Request{ID: "other"}, work.handle)
	wantErr(t, err, ErrOverloaded)
	close(work.block)
	group.Wait()
}

func TestErrorsShowLittleOfTheKey(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	_, err := engine.Do(t.Context(), Request{Scope: "tenant-canary", ID: "secret-canary-0123456789", Policy: &Policy{Lease: 1}}, new(counter).handle)
	for _, leak := range []string{"tenant-canary", "0123456789"} {
		if strings.Contains(err.Error(), leak) {
			t.Errorf("%q shows %q", err, leak)
		}
	}
}
