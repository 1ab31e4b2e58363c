package redfence

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redfence/redfence/cache"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/lock"
	"github.com/redfence/redfence/observe"
)

// decide goes round until the call has its verdict: look, then claim or wait,
// then look again. Whatever route a look takes, it ends at the same row.
func (e *Engine) decide(ctx, waitCtx context.Context, c *call) verdict {
	s := e.look(ctx, c)
	for lost := 0; ; lost++ {
		if c.lapsedBefore(s) {
			if s = e.rest(waitCtx, c, s); s.next == waitFor {
				return verdict{err: &Error{Kind: ErrInProgress, Err: ctx.Err()}}
			}
		}
		if s.next == waitFor {
			locked := s.locked
			s = e.await(ctx, waitCtx, c, s)
			switch {
			case s.next == waitFor:
				return verdict{err: &Error{Kind: ErrInProgress, Err: ctx.Err()}}
			case s.next == claimIt && !locked: // else the lock is not there to be had: it is advice
				s = e.look(ctx, c)
				continue
			}
		}
		v, changed := e.act(ctx, c, s)
		switch {
		case changed == nil:
			return v
		case changed.next != claimIt && changed.next != unseen:
			s = *changed
			continue
		}
		if err := pause(ctx, lost); err != nil {
			return verdict{err: &Error{Kind: err}}
		}
		s = e.look(ctx, c)
	}
}

// lapsedBefore reports whether the call has acted on this lapsed claim already
// and in vain: after an adoption the ledger lets such claims rest for a while
// (R14).
func (c *call) lapsedBefore(s sight) bool {
	if s.next != lapse && s.next != takeOver {
		return false
	}
	before := c.lapsed == s.row.Fence
	c.lapsed = s.row.Fence
	return before
}

// rest waits for a lapsed claim that cannot be acted on yet, and reads the row
// again. The sight says waitFor when the call does not wait, or no longer.
func (e *Engine) rest(waitCtx context.Context, c *call, s sight) sight {
	if c.policy.Wait < 0 || sleep(waitCtx, restPoll/2+rand.N(restPoll)) != nil {
		s.next = waitFor
		return s
	}
	c.lapsed = 0
	return e.lookAtRow(waitCtx, c)
}

const restPoll = 250 * time.Millisecond

// pause keeps callers that lose one race after the other from spinning.
func pause(ctx context.Context, lost int) error {
	if lost < 2 {
		return ctx.Err()
	}
	d := min(time.Duration(lost)*time.Millisecond, 50*time.Millisecond)
	return sleep(ctx, d/2+rand.N(d))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// A sight is what a look at the stores has shown.
type sight struct {
	next   next
	row    fallback.Record // for all but claimIt and failed
	cache  bool            // the row is a copy from the cache
	locked bool            // somebody has the processing lock; the row is not known
	holds  lock.Lease      // the processing lock, for claimIt on the primary route
	err    error           // for failed; for locked, how the lock was refused
}

func (s sight) replay(e *Engine, c *call) verdict {
	if s.cache {
		return e.replay(c, &s.row)
	}
	return e.recovered(c, &s.row)
}

// next is what to do about a row.
type next uint8

const (
	claimIt  next = iota // nobody has it
	takeOver             // its claim has lapsed and the row says Retry
	lapse                // its claim has lapsed and nothing may take it over
	waitFor              // somebody works on it
	replay               // it has its response
	unknown              // nobody knows
	expired              // it never runs again
	inDoubt              // this binary does not know the state
	failed               // the ledger could not be asked
	unseen               // the row has changed since
)

// judge says what to do about a row, by the row's own policy and the ledger's
// clock (§3, R11).
func judge(row *fallback.Record) next {
	switch row.State {
	case fallback.Absent, fallback.Released:
		return claimIt
	case fallback.Completed, fallback.Tombstone:
		switch {
		case !row.Expired():
			return replay
		case row.Policy.AfterExpiry == NeverAgain:
			return expired
		}
		return claimIt
	case fallback.Processing, fallback.Streaming:
		switch {
		case !row.Lapsed():
			return waitFor
		case failpoint.Mutant("takeover-under-hold"):
			return takeOver
		case row.State == fallback.Processing && row.Policy.Takeover == Retry && row.Attempts < row.Policy.MaxAttempts:
			return takeOver
		}
		return lapse
	case fallback.Unknown:
		return unknown
	}
	return inDoubt
}

// look looks at the stores by the route that is in force.
func (e *Engine) look(ctx context.Context, c *call) sight {
	c.route = e.breaker.Route()
	if c.route == observe.Fallback {
		return e.lookAtRow(ctx, c)
	}
	if e.eager.yes() {
		return e.lookAndLock(ctx, c)
	}
	if rec, ok := e.cached(ctx, c); ok {
		return sight{next: replay, row: rec, cache: true}
	}
	return e.lockOrWait(ctx, c)
}

// lockOrWait takes the processing lock, or says that somebody has it.
func (e *Engine) lockOrWait(ctx context.Context, c *call) sight {
	lease, refused := e.takeLock(ctx, c)
	return e.lockedOrNot(ctx, c, lease, refused)
}

func (e *Engine) lockedOrNot(ctx context.Context, c *call, lease lock.Lease, refused error) sight {
	switch {
	case refused != nil && failpoint.Mutant("taken-is-in-progress"):
		return sight{next: failed, err: ErrInProgress}
	case refused != nil && c.policy.Wait >= 0:
		return sight{next: waitFor, locked: true, err: refused}
	case refused != nil: // R7: the row is read before "in progress" is answered
		return e.lookAtRow(ctx, c)
	default:
		return sight{next: claimIt, holds: lease}
	}
}

// lookAtRow reads the row.
func (e *Engine) lookAtRow(ctx context.Context, c *call) sight {
	readCtx, stop := context.WithTimeout(ctx, e.cfg.LedgerTimeout)
	defer stop()
	row, err := e.ledger.Read(readCtx, c.digest)
	if err != nil {
		return sight{next: failed, err: ledgerError(ctx, err)}
	}
	if failpoint.Mutant("finders-policy") {
		row.Policy = c.policy.stored()
	}
	return sight{next: judge(&row), row: row}
}

// cached looks into the cache. A miss is never an error.
func (e *Engine) cached(ctx context.Context, c *call) (fallback.Record, bool) {
	rec, result := e.cache.Get(ctx, c.digest, e.ledger.Clock)
	return e.found(c, rec, result)
}

// found says whether a look-up has found what answers the call.
func (e *Engine) found(c *call, rec cache.Record, result cache.Result) (fallback.Record, bool) {
	e.observeCache(c, result)
	e.eager.learn(result)
	if result != cache.Hit {
		return fallback.Record{}, false
	}
	return fromCache(c, rec), true
}

// nearby answers a duplicate of a key that this process has completed or
// replayed a short while ago.
func (e *Engine) nearby(c *call) (verdict, bool) {
	if c.route = e.breaker.Route(); c.route != observe.Primary {
		return verdict{}, false
	}
	rec, ok := e.cache.Near(c.digest, e.ledger.Clock)
	if !ok {
		return verdict{}, false
	}
	row := fromCache(c, rec)
	if e.compare(c.req.Fingerprint, row.Fingerprint) != same {
		return verdict{}, false
	}
	e.observeCache(c, cache.Hit)
	return e.replay(c, &row), true
}

// recalled asks every node of the cache for a key that the ledger cannot be asked
// for (R10). What it finds is a verdict, also when there is no response to give.
func (e *Engine) recalled(ctx context.Context, c *call, err error) (verdict, bool) {
	if c.route != observe.Primary || ctx.Err() != nil || !errors.Is(err, ErrLedgerUnavailable) {
		return verdict{}, false
	}
	rec, result := e.cache.Recall(ctx, c.digest, e.ledger.Clock)
	switch result {
	case cache.Hit:
	case cache.Erased:
		return verdict{shared: true, err: notReplayable(0, fallback.Forgotten)}, true
	default:
		return verdict{}, false
	}
	e.observeCache(c, result)
	row := fromCache(c, rec)
	if m := e.compare(c.req.Fingerprint, row.Fingerprint); m != same {
		return verdict{shared: m == differs, err: mismatched(m, &row).err}, true
	}
	return e.replay(c, &row), true
}

// takeLock takes the processing lock; refused says that it is taken. With
// neither, there was no quorum, and the request goes on to the claim all the same
// (R7).
func (e *Engine) takeLock(ctx context.Context, c *call) (lease lock.Lease, refused error) {
	done, ok := e.breaker.Attempt()
	if !ok {
		return nil, nil
	}
	if err := failpoint.Hit(ctx, "before-lock"); err != nil {
		done(false, err)
		return nil, nil
	}
	lease, err := e.locks.TryAcquire(ctx, c.digest.String())
	_ = failpoint.Hit(ctx, "after-lock")
	if errors.Is(err, lock.ErrTaken) {
		done(failpoint.Mutant("contention-trips-breaker"), err)
		return nil, err
	}
	done(noQuorum(ctx, err), err)
	return lease, nil
}

// noQuorum reports whether the attempt counts against the quorum (R9): not
// when the lock is taken, not a full queue of our own, not the caller's end.
func noQuorum(ctx context.Context, err error) bool {
	return errors.Is(err, lock.ErrNoQuorum) && !errors.Is(err, lock.ErrOverloaded) && ctx.Err() == nil
}

// act does what a sight asks for. When the row has changed meanwhile, it
// returns what is known of it now, and there is no verdict yet.
func (e *Engine) act(ctx context.Context, c *call, s sight) (v verdict, changed *sight) {
	if s.next != claimIt && s.next != failed {
		if m := e.compare(c.req.Fingerprint, s.row.Fingerprint); m != same { // R2: whatever the state
			s = mismatched(m, &s.row)
		}
	}
	switch s.next {
	case claimIt:
		return e.execute(ctx, c, s.holds, nil)
	case takeOver:
		return e.execute(ctx, c, nil, &s.row)
	case replay:
		return s.replay(e, c), nil
	case lapse:
		return e.lapse(ctx, c, &s.row)
	case unknown:
		return e.recover(ctx, c, &s.row)
	case expired:
		return verdict{shared: true, err: ErrExpired}, nil
	case inDoubt:
		return verdict{err: inDoubtError(&s.row)}, nil
	}
	if v, ok := e.recalled(ctx, c, s.err); ok {
		return v, nil
	}
	return verdict{shared: errors.Is(s.err, ErrMismatch), err: s.err}, nil
}

func inDoubtError(row *fallback.Record) error {
	return &Error{Kind: ErrInDoubt,
		Err:  fmt.Errorf("row in state %d, record version %d", row.State, row.Version),
		Hint: "another version of the program wrote it: upgrade this one"}
}

// mismatched is the sight of a row that another request has made, or of one
// that cannot be told.
func mismatched(m match, row *fallback.Record) sight {
	if m == differs {
		return sight{next: failed, err: ErrMismatch}
	}
	return sight{next: failed, err: &Error{Kind: ErrInDoubt,
		Err:  fmt.Errorf("fingerprint version %d under secret %d cannot be computed here", row.Fingerprint.Version, row.Fingerprint.Secret),
		Hint: "give this process the secret, or upgrade it"}}
}

// lapse marks a lapsed claim as unknown, on behalf of its dead owner.
func (e *Engine) lapse(ctx context.Context, c *call, row *fallback.Record) (verdict, *sight) {
	now, err := e.ledger.Lapse(ctx, c.digest, row.Fence)
	switch {
	case errors.Is(err, fallback.ErrRefused):
		return verdict{}, &sight{next: unseen}
	case err != nil:
		return verdict{err: ledgerError(ctx, err)}, nil
	}
	e.cfg.Observer.Observe(observe.OutcomeUnknown{Key: c.ref(), Fence: now.Fence, Reason: now.Reason})
	return verdict{}, &sight{next: judge(&now), row: now}
}

func unknownError(row *fallback.Record) error {
	return &Error{Kind: ErrUnknownOutcome, Err: fmt.Errorf("fence %d, owner %s: %s", row.Fence, row.Owner, row.Reason)}
}

// ledgerError is the engine's word for what the ledger could not do before
// anything was started.
func ledgerError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return &Error{Kind: ErrLedgerUnavailable, Err: ctx.Err()}
	case errors.Is(err, fallback.ErrOverloaded), errors.Is(err, fallback.ErrBusy):
		return &Error{Kind: ErrOverloaded, Err: err}
	}
	return &Error{Kind: ErrLedgerUnavailable, Err: err}
}
