package lock

import (
	"context"
	"time"

	"github.com/redfence/redfence/internal/node"
)

// extension is one extension in flight; whoever asks meanwhile shares it.
type extension struct {
	done chan struct{}
	err  error
}

// Extend implements Lease.
func (h *held) Extend(ctx context.Context) error {
	e, err := h.startExtension()
	if err != nil {
		return err
	}
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return &Error{Op: opExtend, Name: h.name, Ctx: ctx.Err()}
	}
}

// startExtension starts an extension, or joins the one in flight. It runs on
// no caller's context: renewal does not end with whoever acquired or asked.
func (h *held) startExtension() (*extension, error) {
	h.mu.Lock()
	if h.state == stateHeld && !h.valid() {
		h.endAs(stateLost, ErrLost)
		h.giveBack()
		h.mu.Lock()
	}
	defer h.mu.Unlock()
	switch h.state {
	case stateReleased:
		return nil, &Error{Op: opExtend, Name: h.name, Reason: ErrNotHeld}
	case stateLost:
		return nil, &Error{Op: opExtend, Name: h.name, Reason: ErrLost}
	}
	return h.extendAside(), nil
}

// extendAside starts an extension on a goroutine of its own, or returns the
// one in flight. h.mu is held.
func (h *held) extendAside() *extension {
	if h.flight == nil {
		h.flight = &extension{done: make(chan struct{})}
		go h.extend(h.flight)
	}
	return h.flight
}

func (h *held) extend(e *extension) {
	h.acquired.askRest()
	start := time.Now()
	value := valueOf(h.token, h.r.cfg.Owner, h.fence)
	c := h.r.newCall(opExtend, readChange)
	c.command(extendScript, extendScript.Command([]string{h.key}, value, h.ttl.Milliseconds()))
	c.late = func(s *slot) { h.seed(s, value) }
	err := h.r.run(context.Background(), c, h.key, h.ttl)
	until := start.Add(h.ttl - drift(h.ttl))
	switch {
	case err == nil && time.Now().Before(until):
		h.extended(until)
		for i := range c.slots {
			h.seed(&c.slots[i], value)
		}
	default:
		e.err = h.notExtended(c)
	}
	h.mu.Lock()
	h.flight = nil
	if h.state == stateHeld {
		h.due = time.Now().Add(h.nextRenewal(e.err))
		h.setTimer()
	}
	h.mu.Unlock()
	close(e.done)
}

// nextRenewal: a third of the TTL after a success, sooner after a failure.
func (h *held) nextRenewal(err error) time.Duration {
	if err == nil {
		return h.ttl / renewals
	}
	return max(min(h.ttl/10, time.Until(h.until)/4), time.Millisecond)
}

// extended moves the end of the validity, unless the lease has ended.
func (h *held) extended(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.valid() {
		h.rearm(until)
	}
}

// notExtended judges an extension that was not confirmed. When a quorum no
// longer has the lock even if every silent node had it, the lease is lost now;
// else it stays valid until its end, and the watchdog tries again.
func (h *held) notExtended(c *call) error {
	err := failure(opExtend, h.name, c, nil)
	c.mu.Lock()
	gone := c.votes.no > len(c.slots)-(len(c.slots)/2+1)
	c.mu.Unlock()
	if gone {
		h.lose()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.state == stateReleased:
		err.Reason = ErrNotHeld
	case h.state == stateLost:
		err.Reason = ErrLost
	case err.Reason == ErrLost: // some nodes lost it, and others are silent
		err.Reason = ErrNoQuorum
	}
	return err
}

// seed puts the lock back on a node that has lost it, after a quorum has
// confirmed it inside its validity in the same call.
func (h *held) seed(s *slot, value string) {
	c := s.call
	c.mu.Lock()
	missing := c.result == won && s.vote == no && s.reply.missing && !s.seeded
	s.seeded = s.seeded || missing
	c.mu.Unlock()
	if !missing {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.valid() {
		return
	}
	h.seeded |= 1 << s.i
	s.node().Send(&node.Op{
		Script: seedScript,
		Args:   seedScript.Command([]string{h.key}, value, h.ttl.Milliseconds()),
		To:     &seeding{h: h, node: s.node()},
	})
}

// seeding receives the answer to a seed: one that may land after the lease has
// ended is undone then.
type seeding struct {
	h    *held
	node *node.Node
}

// Reply implements node.Receiver.
func (s *seeding) Reply(_ *node.Op, _ any, err error) {
	if err == nil || node.Unsent(err) || node.Answered(err) {
		return
	}
	context.AfterFunc(s.h.ctx, func() { s.h.r.clean(s.node, s.h.key, s.h.token, true) })
}
