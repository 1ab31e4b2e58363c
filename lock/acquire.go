package lock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// try makes one try at the lock, under a token of its own.
func (r *Redlock) try(ctx context.Context, name string, o Options) (*held, error) {
	if err := ctx.Err(); err != nil {
		return nil, &Error{Op: opAcquire, Name: name, Ctx: err}
	}
	token, key := newToken(), r.key(name)
	value := valueOf(token, r.cfg.Owner, 0)
	c := r.acquireCall(name, token, value, o.TTL)
	start := time.Now()
	err := r.run(ctx, c, key, o.TTL)
	if err != nil {
		c.giveUp()
		return nil, failure(opAcquire, name, c, ctx.Err())
	}
	fence := int64(0)
	if r.guard != nil {
		if fence, err = r.fenceOf(ctx, name, c); err != nil {
			c.giveUp()
			return nil, err
		}
	}
	until := start.Add(o.TTL - drift(o.TTL))
	if !time.Now().Before(until) {
		c.giveUp()
		return nil, &Error{Op: opAcquire, Name: name, Reason: ErrTooLate}
	}
	return r.hold(ctx, name, token, fence, o, c, until), nil
}

// acquireCall prepares the acquire of one try on every node.
func (r *Redlock) acquireCall(name, token, value string, ttl time.Duration) *call {
	key := r.key(name)
	c := r.newCall(opAcquire, readAcquire)
	c.undo = func(s *slot, certain bool) { r.clean(s.node(), key, token, !certain) }
	c.command(nil, []any{"set", key, value, "px", ttl.Milliseconds(), "nx"})
	if r.guard == nil {
		c.brief = r.brief
		r.spareRest(c, name)
		return c
	}
	c.guard, c.complete = r.guard, make(chan struct{})
	return c
}

// whose follows a plain SET that found a lock: the script tells whose it is,
// and for how long. It is the try's own after a SET that was sent twice.
func (s *slot) whose() {
	set := s.op.Args
	s.asked = true
	s.op.Script, s.op.Args = acquireScript, acquireScript.Command([]string{set[1].(string)}, set[2], set[4])
	s.node().Send(&s.op)
}

// readAcquire reads the answer to an acquire: OK, a fence, {holder, TTL}, or
// nothing, which is a refusal without details.
func readAcquire(s *slot, value any) (vote, error) {
	switch v := value.(type) {
	case nil:
		return no, nil
	case int64:
		s.reply.fence = v
		return yes, nil
	case string:
		if v == "OK" {
			return yes, nil
		}
		fence, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return failed, fmt.Errorf("unexpected fence %q", capped(v))
		}
		s.reply.fence = fence
		return yes, nil
	case []any:
		if len(v) == 2 {
			s.reply.holder, _ = v[0].(string)
			s.reply.ttlMS, _ = v[1].(int64)
			return no, nil
		}
	}
	return failed, errUnexpected
}

// readChange reads the answer to an extension or a release.
func readChange(s *slot, value any) (vote, error) {
	switch value {
	case replyDone:
		return yes, nil
	case replyMissing:
		s.reply.missing = true
		return no, nil
	case replyOther:
		return no, nil
	}
	return failed, errUnexpected
}

// readRelease is readChange, except that a release which was sent twice and
// finds nothing has succeeded the first time.
func readRelease(s *slot, value any) (vote, error) {
	if value == replyMissing && (s.op.Resent() || s.again) {
		return yes, nil
	}
	return readChange(s, value)
}

var errUnexpected = errors.New("unexpected answer")
