package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redfence/redfence"
)

// judge returns everything that is wrong with a run.
func (w *world) judge() []string {
	problems := slices.Clone(w.problems)
	for _, key := range w.plan.keys {
		k := &keyJudge{plan: &w.plan, key: key, events: w.h.of(key.id), dead: map[string]bool{}}
		for _, e := range k.events {
			k.see(e)
		}
		k.end()
		problems = append(problems, k.problems...)
		if len(k.problems) > 0 {
			problems = append(problems, lines(k.events))
		}
	}
	return problems
}

// A keyJudge goes through what happened to one key.
type keyJudge struct {
	plan     *plan
	key      keyPlan
	events   []event
	claims   []*claim
	answers  []event
	dead     map[string]bool
	durable  *event // the first durable answer
	problems []string
}

// A claim is what is known of one that was granted.
type claim struct {
	event
	ended    eventKind // how, as far as the ledger knows
	streams  bool
	started  *event
	returned *event
}

func (k *keyJudge) wrong(format string, args ...any) {
	k.problems = append(k.problems, k.key.id+": "+fmt.Sprintf(format, args...))
}

func (k *keyJudge) last() *claim {
	if len(k.claims) == 0 {
		return &claim{}
	}
	return k.claims[len(k.claims)-1]
}

func (k *keyJudge) find(fence int64) *claim {
	for _, c := range k.claims {
		if c.fence == fence {
			return c
		}
	}
	return nil
}

func (k *keyJudge) see(e event) {
	switch e.kind {
	case died:
		k.dead[e.who] = true
		return
	case granted:
		k.granted(e)
		return
	case answered:
		k.answers = append(k.answers, e)
		k.answered(e)
		return
	case resolved, freed:
		k.last().ended = e.kind
		return
	}
	c := k.find(e.fence)
	if c == nil {
		k.wrong("%s under fence %d, which was never granted", e.kind, e.fence)
		return
	}
	switch e.kind {
	case started:
		k.started(c, e)
	case returned:
		c.returned = &e
	default:
		k.changed(c, e)
	}
}

// granted: only when no other claim can be at work (§1, 2 and 3).
func (k *keyJudge) granted(e event) {
	before := k.last()
	switch {
	case before.kind == "":
	case e.fence <= before.fence:
		k.wrong("fence %d after fence %d", e.fence, before.fence)
	case before.ended == released, before.ended == givenBack, before.ended == freed:
	case before.ended == "" && before.retry && !before.streams && before.until <= e.at:
	default:
		k.wrong("claim granted under fence %d while fence %d is %s until %v, retry %v", e.fence, before.fence, before.ended, before.until, before.retry)
	}
	k.claims = append(k.claims, &claim{event: e})
}

// started: at most once per claim, under a lease in force, and again only after
// a release or a lapse.
func (k *keyJudge) started(c *claim, e event) {
	switch {
	case c.started != nil:
		k.wrong("started twice under fence %d", e.fence)
	case c != k.last():
		k.wrong("started under fence %d after fence %d was granted", e.fence, k.last().fence)
	case e.at >= c.until:
		k.wrong("started under fence %d when its lease had lapsed", e.fence)
	case k.durable != nil:
		k.wrong("started under fence %d after a durable answer", e.fence)
	}
	c.started = &e
	for _, earlier := range k.claims {
		if earlier == c || earlier.started == nil || k.mayFollow(earlier, c) {
			continue
		}
		k.wrong("second start, under fence %d: the first, under fence %d, was not undone and no lapse let another take over", e.fence, earlier.fence)
	}
}

// mayFollow: a start may follow another that was undone, that somebody has
// decided about, or whose lease has lapsed under Retry.
func (k *keyJudge) mayFollow(earlier, c *claim) bool {
	switch {
	case earlier.ended == freed:
		return true
	case earlier.returned != nil && k.releases(earlier.returned.result) && earlier.returned.at <= c.at:
		return true
	}
	return earlier.retry && earlier.until <= c.at
}

func (k *keyJudge) releases(r result) bool {
	switch r {
	case undone, forgone:
		return true
	case fails, cutShort:
		return k.key.policy.OnError == redfence.ErrorReleases
	case panics:
		return k.key.policy.OnPanic == redfence.ErrorReleases
	}
	return false
}

// changed: only the owner of the newest claim ends it, and only as its handler
// has ended.
func (k *keyJudge) changed(c *claim, e event) {
	if c != k.last() {
		k.wrong("%s under fence %d after fence %d was granted", e.kind, e.fence, k.last().fence)
	}
	switch e.kind {
	case renewed, streaming:
		c.until = e.until
		c.streams = c.streams || e.kind == streaming
		return
	case givenBack:
		if c.started != nil {
			k.wrong("fence %d was given back as not started", e.fence)
		}
	case lapsed:
		if e.at < c.until {
			k.wrong("fence %d was found lapsed before %v", e.fence, c.until)
		}
	case completed, buried, abandoned, released:
		switch {
		case e.kind == buried && c.streams: // by whoever finds it
		case c.returned == nil:
			k.wrong("%s under fence %d before its handler had returned", e.kind, e.fence)
		case e.kind == released && !k.releases(c.returned.result):
			k.wrong("released under fence %d, whose handler %s", e.fence, c.returned.result)
		}
	}
	c.ended = e.kind
}

// answered checks one answer by itself, and against the durable one.
func (k *keyJudge) answered(e event) {
	a := e.answer
	starts := 0
	if a.outcome == "executed" || a.panicked {
		starts = 1
	}
	if a.starts != starts {
		k.wrong("call %d: %s, and the handler started %d times in it", e.call, a.outcome, a.starts)
	}
	if errors.Is(a.err, redfence.ErrMismatch) && !slices.ContainsFunc(k.claims, func(c *claim) bool { return c.request != e.request }) {
		k.wrong("call %d: mismatch, and nobody has asked for anything else", e.call)
	}
	if k.hasContent(a) && !k.comesFromAStart(e) {
		k.wrong("call %d: %q was never answered to this request by a handler", e.call, a.content)
	}
	switch {
	case k.durable != nil && k.durable.at < a.began && a.noWait && k.plan.ledger.stale == 0 &&
		errors.Is(a.err, redfence.ErrInProgress) && !errors.Is(a.err, context.DeadlineExceeded):
		k.wrong("call %d: in progress, after call %d got a durable answer", e.call, k.durable.call)
	case !a.durable:
	case k.durable == nil:
		k.durable = &e
	case k.durable.answer.content != a.content:
		k.wrong("call %d: durable answer %.80q, call %d had %.80q", e.call, a.content, k.durable.call, k.durable.answer.content)
	}
}

func (k *keyJudge) hasContent(a *answer) bool {
	var stored *redfence.StoredError
	return a.outcome != "none" && (a.err == nil || errors.As(a.err, &stored))
}

func (k *keyJudge) comesFromAStart(e event) bool {
	for _, c := range k.claims {
		if c.returned == nil {
			continue
		}
		from := k.plan.find(c.returned.call)
		if strings.HasPrefix(strings.TrimPrefix(e.answer.content, "error: "), content(from, c.fence)) && from.request == e.request {
			return true
		}
	}
	return false
}

// end: once everything was mended, each engine gives the verdict that the key's
// story asks for.
func (k *keyJudge) end() {
	for _, e := range k.answers {
		if e.answer.last {
			k.verdict(e)
		}
	}
}

func (k *keyJudge) verdict(e event) {
	a, c := e.answer, k.last()
	switch {
	case errors.Is(a.err, redfence.ErrMismatch) && c.request != e.request:
	case a.durable, !errors.Is(a.err, redfence.ErrUnknownOutcome) && !errors.Is(a.err, redfence.ErrNotReplayable): // no last word
	case k.durable != nil && k.durable.at < a.began:
		k.wrong("call %d at the end: %v, although call %d had a durable answer", e.call, a.err, k.durable.call)
	case errors.Is(a.err, redfence.ErrNotReplayable):
		if c.ended != buried {
			k.wrong("call %d at the end: %v, and nothing was buried", e.call, a.err)
		}
	case errors.Is(a.err, redfence.ErrUnknownOutcome):
		if e.at > healed+2*maxProcessing && !k.mayBeUnknown(c) {
			k.wrong("call %d at the end: %v, although the owner lives and has an outcome", e.call, a.err)
		}
	}
}

// mayBeUnknown: its owner is gone, or has said that nobody knows.
func (k *keyJudge) mayBeUnknown(c *claim) bool {
	if k.dead[c.who] {
		return true
	}
	if c.returned == nil {
		return false
	}
	switch c.returned.result {
	case fails, cutShort:
		return k.key.policy.OnError == redfence.ErrorUnknown
	case panics:
		return k.key.policy.OnPanic == redfence.ErrorUnknown
	case forgone: // under Retry the row is left to take-over, as long as attempts are left
		return c.retry
	}
	return false
}
