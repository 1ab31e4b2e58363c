package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redfence/redfence/fallback"
)

// A witness notes what the shared ledger has done. It is between the ledger
// and the links, so that a broken ledger is noted as well.
type witness struct {
	fallback.Ledger
	h    *history
	keys map[fallback.Digest]string // guarded by h.mu
}

// do runs one statement and notes its effect, if it had one, as one step.
func do[T any](w *witness, act func() (T, error), effect func(T) *event) (T, error) {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	v, err := act()
	if err == nil {
		if e := effect(v); e != nil {
			w.h.append(*e)
		}
	}
	return v, err
}

func (w *witness) claim(req fallback.ClaimRequest, act func() (fallback.Verdict, error)) (fallback.Verdict, error) {
	return do(w, act, func(v fallback.Verdict) *event {
		w.keys[req.Digest] = req.Key.ID
		if v.Granted == nil {
			return nil
		}
		return &event{
			kind: granted, key: req.Key.ID, who: req.Owner, fence: v.Granted.Fence, attempt: v.Granted.Attempt,
			until: w.h.now() + req.Policy.Lease, retry: req.Policy.Takeover == fallback.Retry, request: string(req.Fingerprint.Sum),
		}
	})
}

func (w *witness) Claim(ctx context.Context, req fallback.ClaimRequest) (fallback.Verdict, error) {
	return w.claim(req, func() (fallback.Verdict, error) { return w.Ledger.Claim(ctx, req) })
}

func (w *witness) TakeOver(ctx context.Context, req fallback.ClaimRequest, fence int64) (fallback.Verdict, error) {
	return w.claim(req, func() (fallback.Verdict, error) { return w.Ledger.TakeOver(ctx, req, fence) })
}

// lease notes where a lease ends now, by the row.
func (w *witness) lease(kind eventKind, ref fallback.Ref, act func() (fallback.Grant, error)) (fallback.Grant, error) {
	return do(w, act, func(fallback.Grant) *event {
		row, err := w.Ledger.Read(context.Background(), ref.Digest)
		if err != nil {
			return nil
		}
		return &event{kind: kind, key: w.keys[ref.Digest], fence: ref.Fence, until: row.LeaseUntil.Sub(w.h.began)}
	})
}

func (w *witness) Renew(ctx context.Context, ref fallback.Ref, late bool) (fallback.Grant, error) {
	return w.lease(renewed, ref, func() (fallback.Grant, error) { return w.Ledger.Renew(ctx, ref, late) })
}

func (w *witness) Stream(ctx context.Context, ref fallback.Ref) (fallback.Grant, error) {
	return w.lease(streaming, ref, func() (fallback.Grant, error) { return w.Ledger.Stream(ctx, ref) })
}

func (w *witness) end(kind eventKind, ref fallback.Ref, act func() error) error {
	_, err := do(w, func() (struct{}, error) { return struct{}{}, act() }, func(struct{}) *event {
		return &event{kind: kind, key: w.keys[ref.Digest], fence: ref.Fence}
	})
	return err
}

func (w *witness) Release(ctx context.Context, ref fallback.Ref, why string) error {
	return w.end(released, ref, func() error { return w.Ledger.Release(ctx, ref, why) })
}

func (w *witness) GiveBack(ctx context.Context, ref fallback.Ref, why string) error {
	return w.end(givenBack, ref, func() error { return w.Ledger.GiveBack(ctx, ref, why) })
}

func (w *witness) Abandon(ctx context.Context, ref fallback.Ref, why string) error {
	return w.end(abandoned, ref, func() error { return w.Ledger.Abandon(ctx, ref, why) })
}

func (w *witness) row(kind eventKind, ref fallback.Ref, act func() (fallback.Record, error)) (fallback.Record, error) {
	return do(w, act, func(fallback.Record) *event { return &event{kind: kind, key: w.keys[ref.Digest], fence: ref.Fence} })
}

func (w *witness) Complete(ctx context.Context, c fallback.Completion) (fallback.Record, error) {
	return w.row(completed, c.Ref, func() (fallback.Record, error) { return w.Ledger.Complete(ctx, c) })
}

func (w *witness) Bury(ctx context.Context, b fallback.Burial) (fallback.Record, error) {
	return w.row(buried, b.Ref, func() (fallback.Record, error) { return w.Ledger.Bury(ctx, b) })
}

func (w *witness) Decide(ctx context.Context, dec fallback.Decision) (fallback.Record, error) {
	kind := resolved
	if dec.State == fallback.Released {
		kind = freed
	}
	return w.row(kind, fallback.Ref{Digest: dec.Digest, Fence: dec.Fence}, func() (fallback.Record, error) { return w.Ledger.Decide(ctx, dec) })
}

// Lapse answers with the row as it is, changed or not.
func (w *witness) Lapse(ctx context.Context, d fallback.Digest, fence int64) (fallback.Record, error) {
	return do(w, func() (fallback.Record, error) { return w.Ledger.Lapse(ctx, d, fence) }, func(r fallback.Record) *event {
		switch {
		case r.State == fallback.Unknown && r.Reason == "lease lapsed":
			return &event{kind: lapsed, key: w.keys[d], fence: fence}
		case r.State == fallback.Tombstone:
			return &event{kind: buried, key: w.keys[d], fence: fence}
		}
		return nil
	})
}

// A link is the way from one engine to the ledger that all share.
type link struct {
	in *instance
	to *witness
}

var (
	_ fallback.Ledger = (*link)(nil)
	_ fallback.Waker  = (*link)(nil)
)

var (
	errNotSent  = fmt.Errorf("%w: not sent", fallback.ErrUnavailable)
	errNoAnswer = fmt.Errorf("%w: no answer", fallback.ErrUnavailable)
)

type reply[T any] struct {
	value T
	err   error
}

// ask sends one statement. What becomes of it does not depend on whether
// somebody still waits for the answer.
func ask[T any](ctx context.Context, l *link, method string, d fallback.Digest, act func() (T, error)) (T, error) {
	l.in.stand()
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	if l.in.isDead() {
		return none, errNotSent
	}
	f := l.in.ledgerFate(method, d)
	answer := make(chan reply[T], 1)
	l.in.w.background.Go(func() {
		time.Sleep(f.before)
		switch kind := l.in.onArrival(f.kind); kind {
		case refused:
			answer <- reply[T]{none, errNotSent}
		case silent:
		default:
			v, err := act()
			time.Sleep(f.after)
			if kind == lost {
				v, err = none, errNoAnswer
			}
			answer <- reply[T]{v, err}
		}
	})
	ctx, stop := context.WithTimeout(ctx, silence)
	defer stop()
	select {
	case r := <-answer:
		l.in.stand()
		return r.value, r.err
	case <-ctx.Done():
		l.in.stand()
		return none, errors.Join(errNoAnswer, ctx.Err())
	}
}

// claim sends a statement that claims nothing after its not-after.
func (l *link) claim(ctx context.Context, method string, d fallback.Digest, act func() (fallback.Verdict, error)) (fallback.Verdict, error) {
	l.in.stand()
	if err := ctx.Err(); err != nil {
		return fallback.Verdict{}, err
	}
	notAfter := time.Now().Add(claimTerm)
	v, err := ask(context.WithoutCancel(ctx), l, method, d, func() (fallback.Verdict, error) {
		if time.Now().After(notAfter) {
			return fallback.Verdict{}, errNotSent
		}
		return act()
	})
	if errors.Is(err, errNoAnswer) {
		err = &fallback.UnconfirmedError{NotAfter: notAfter, Err: err}
	}
	return v, err
}

func (l *link) Claim(ctx context.Context, req fallback.ClaimRequest) (fallback.Verdict, error) {
	return l.claim(ctx, "claim", req.Digest, func() (fallback.Verdict, error) { return l.to.Claim(context.Background(), req) })
}

func (l *link) TakeOver(ctx context.Context, req fallback.ClaimRequest, fence int64) (fallback.Verdict, error) {
	return l.claim(ctx, "take over", req.Digest, func() (fallback.Verdict, error) { return l.to.TakeOver(context.Background(), req, fence) })
}

// Read may show what was.
func (l *link) Read(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	f := l.in.ledgerFate("age of a read", d)
	return ask(ctx, l, "read", d, func() (fallback.Record, error) {
		row, err := l.to.Read(context.Background(), d)
		if err == nil && f.kind == stale && !l.in.w.calm() {
			return l.in.w.past.choose(row, f.rand), nil
		}
		l.in.w.past.keep(row)
		return row, err
	})
}

// Confirm never does.
func (l *link) Confirm(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	return ask(ctx, l, "confirm", d, func() (fallback.Record, error) { return l.to.Confirm(context.Background(), d) })
}

func (l *link) Renew(ctx context.Context, ref fallback.Ref, late bool) (fallback.Grant, error) {
	return ask(ctx, l, "renew", ref.Digest, func() (fallback.Grant, error) { return l.to.Renew(context.Background(), ref, late) })
}

func (l *link) Complete(ctx context.Context, c fallback.Completion) (fallback.Record, error) {
	return ask(ctx, l, "complete", c.Digest, func() (fallback.Record, error) { return l.to.Complete(context.Background(), c) })
}

func (l *link) exec(ctx context.Context, method string, d fallback.Digest, act func() error) error {
	_, err := ask(ctx, l, method, d, func() (struct{}, error) { return struct{}{}, act() })
	return err
}

func (l *link) Release(ctx context.Context, ref fallback.Ref, why string) error {
	return l.exec(ctx, "release", ref.Digest, func() error { return l.to.Release(context.Background(), ref, why) })
}

func (l *link) GiveBack(ctx context.Context, ref fallback.Ref, why string) error {
	return l.exec(ctx, "give back", ref.Digest, func() error { return l.to.GiveBack(context.Background(), ref, why) })
}

func (l *link) Abandon(ctx context.Context, ref fallback.Ref, why string) error {
	return l.exec(ctx, "abandon", ref.Digest, func() error { return l.to.Abandon(context.Background(), ref, why) })
}

func (l *link) Lapse(ctx context.Context, d fallback.Digest, fence int64) (fallback.Record, error) {
	return ask(ctx, l, "lapse", d, func() (fallback.Record, error) { return l.to.Lapse(context.Background(), d, fence) })
}

func (l *link) Decide(ctx context.Context, dec fallback.Decision) (fallback.Record, error) {
	return ask(ctx, l, "decide", dec.Digest, func() (fallback.Record, error) { return l.to.Decide(context.Background(), dec) })
}

func (l *link) Stream(ctx context.Context, ref fallback.Ref) (fallback.Grant, error) {
	return ask(ctx, l, "stream", ref.Digest, func() (fallback.Grant, error) { return l.to.Stream(context.Background(), ref) })
}

func (l *link) Bury(ctx context.Context, b fallback.Burial) (fallback.Record, error) {
	return ask(ctx, l, "bury", b.Digest, func() (fallback.Record, error) { return l.to.Bury(context.Background(), b) })
}

func (l *link) BeginRecovery(ctx context.Context, d fallback.Digest, fence int64, term time.Duration) (fallback.Record, error) {
	return ask(ctx, l, "begin recovery", d, func() (fallback.Record, error) {
		return l.to.BeginRecovery(context.Background(), d, fence, term)
	})
}

func (l *link) Forget(ctx context.Context, d fallback.Digest, who, why string) (fallback.Record, error) {
	return ask(ctx, l, "forget", d, func() (fallback.Record, error) { return l.to.Forget(context.Background(), d, who, why) })
}

func (l *link) Clock() (time.Time, time.Duration, bool) { return l.to.Clock() }

func (l *link) Close() error { return nil }

// Wake loses some of its hints.
func (l *link) Wake(ctx context.Context, d fallback.Digest) error {
	return l.exec(ctx, "wake", d, func() error { return l.to.Ledger.(fallback.Waker).Wake(context.Background(), d) })
}

func (l *link) Watch(d fallback.Digest) (<-chan struct{}, func()) {
	return l.to.Ledger.(fallback.Waker).Watch(d)
}

// past is what reads have shown.
type past struct {
	mu   sync.Mutex
	rows map[fallback.Digest][]fallback.Record
}

func (p *past) keep(row fallback.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows[row.Digest] = append(p.rows[row.Digest], row)
}

// choose returns the row as it was at some time.
func (p *past) choose(row fallback.Record, n uint64) fallback.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := append(p.rows[row.Digest], fallback.Record{Digest: row.Digest, Now: row.Now})
	return old[n%uint64(len(old))]
}
