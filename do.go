package redfence

import (
	"context"
	"errors"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

// Do runs fn for the request's key, at most once among all engines that share
// the ledger (with Hold; see Policy), and returns its response. A duplicate
// gets the stored response, or waits for the one in flight as Policy.Wait
// says.
//
// The handler runs in the caller's goroutine. Its panic is passed on after the
// key is settled. The error is the handler's own, a *StoredError that is
// replayed, or, while Result.Outcome is zero, an *Error that matches one of the
// sentinels: then this call has not started the handler.
func (e *Engine) Do(ctx context.Context, req Request, fn Handler) (Result, error) {
	if fn == nil {
		return Result{}, describe(&Error{Kind: ErrInvalid, Err: errors.New("the handler is nil")}, "do", req.Key(), "")
	}
	return e.do(ctx, req, fn)
}

// A performer does the work of a claim that is ours.
type performer interface {
	perform(ctx context.Context, r *run) (Response, error)
}

func (fn Handler) perform(ctx context.Context, r *run) (Response, error) { return fn(ctx, r.ex) }

func (e *Engine) do(ctx context.Context, req Request, work performer) (Result, error) {
	began := time.Now()
	c, err := e.newCall(ctx, req, work)
	if err != nil {
		return Result{}, c.error(err)
	}
	if !e.work.enter() {
		return Result{}, c.error(ErrClosed)
	}
	defer e.work.leave()
	res, err := e.answer(ctx, c)
	res.Route = c.route
	if res.Outcome == 0 { // else the error is the handler's
		err = c.error(err)
	}
	e.observeDo(c, res, err, began)
	return res, err
}

// answer gives what this process knows by itself, or finds out.
func (e *Engine) answer(ctx context.Context, c *call) (Result, error) {
	if v, ok := e.nearby(c); ok {
		return v.res, v.err
	}
	return e.joinOrLead(ctx, c)
}

// A call is one call of Do on its way.
type call struct {
	engine *Engine
	req    Request
	policy Policy
	key    fallback.Key
	digest fallback.Digest
	work   performer
	until  time.Time // when the call stops waiting; zero: with its context
	flight *flight   // that this call leads; nil: it leads none
	tries  int       // claims that came too late
	lapsed int64     // the fence of the lapsed claim that was acted on last
	route  observe.Route
}

func (e *Engine) newCall(ctx context.Context, req Request, work performer) (*call, error) {
	key := req.Key().in(doNamespace)
	c := &call{engine: e, req: req, policy: e.cfg.Policy, key: key, digest: key.Digest(), work: work}
	if req.Policy != nil {
		c.policy = req.Policy.withDefaults()
		if err := c.policy.Validate(); err != nil {
			return c, &Error{Kind: ErrInvalid, Err: err}
		}
	}
	switch {
	case req.ID == "":
		return c, &Error{Kind: ErrInvalid, Err: errors.New("Request.ID is empty")}
	case runsIn(ctx, e, c.digest):
		return c, &Error{Kind: ErrInProgress, Err: errors.New("this context belongs to the handler of the same key")}
	}
	if c.policy.Wait > 0 {
		c.until = time.Now().Add(c.policy.Wait)
	}
	return c, nil
}

func (c *call) ref() observe.Ref { return observe.RefOf(c.digest[:]) }

// error gives the engine's errors their operation, key and route.
func (c *call) error(err error) error {
	return describe(err, "do", c.req.Key(), c.route)
}

// joinOrLead shares the verdict of a call that is under way in this process,
// or goes its own way.
func (e *Engine) joinOrLead(ctx context.Context, c *call) (Result, error) {
	noWait := c.policy.Wait < 0
	waitCtx, stop := c.waitContext(ctx)
	defer stop()
	for {
		fl, lead := e.flights.join(c.digest, c.req.Fingerprint)
		switch {
		case lead:
			return e.lead(ctx, waitCtx, c, fl)
		case fl == nil:
			return e.lead(ctx, waitCtx, c, nil)
		}
		switch m := compareCalls(fl.fp, c.req.Fingerprint); {
		case m == differs && fl.started():
			return Result{}, ErrMismatch
		case m != same: // the record will tell, also which of the two is wrong
			return e.lead(ctx, waitCtx, c, nil)
		}
		switch fl.follow(waitCtx, noWait) {
		case gotVerdict:
			return fl.verdict.follower()
		case stillRuns:
			return Result{}, ErrInProgress
		case lookYourself:
			return e.lead(ctx, waitCtx, c, nil)
		case timeIsUp:
			return Result{}, &Error{Kind: ErrInProgress, Err: ctx.Err()}
		}
	}
}

// waitContext bounds the waiting, not the work.
func (c *call) waitContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.until.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, c.until)
}

// follower is the verdict as a follower gets it: a response of its own.
func (v verdict) follower() (Result, error) {
	var unknown *Error
	switch {
	case errors.As(v.toFollowers, &unknown):
		return Result{}, v.toFollowers
	case v.toFollowers != nil:
		v.err = v.toFollowers
	}
	if v.res.Outcome != 0 {
		v.res.Outcome = Joined
		v.res.Response = v.res.Response.clone()
	}
	return v.res, v.err
}

// lead looks for the answer in the stores and runs the handler if it gets the
// claim; then it lands its flight.
func (e *Engine) lead(ctx, waitCtx context.Context, c *call, fl *flight) (Result, error) {
	c.flight = fl
	v := verdict{err: ErrUnknownOutcome} // what followers of a panic see
	landed := false
	land := func() {
		if !landed {
			landed = true
			e.flights.land(c.digest, fl, v)
		}
	}
	defer land() // also when the handler panics
	v = e.decide(ctx, waitCtx, c)
	land()
	return v.res, v.err
}
