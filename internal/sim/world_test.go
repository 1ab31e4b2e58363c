package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/observe"
)

// A world is one run of a plan.
type world struct {
	plan       plan
	h          *history
	ledger     *witness
	nodes      []*node
	past       past
	background sync.WaitGroup // statements on their way

	mu        sync.Mutex
	instances []*instance // by slot
	problems  []string
}

// store is the ledger of a run: a good one, or one that is broken on purpose.
type store interface {
	fallback.Ledger
	fallback.Waker
}

// run plays a plan on a ledger and returns the world as it is afterwards. It
// has to run in a bubble.
func run(p plan, ledger store) *world {
	w := &world{plan: p, h: &history{began: time.Now()}, past: past{rows: map[fallback.Digest][]fallback.Record{}}}
	w.ledger = &witness{Ledger: ledger, h: w.h, keys: map[fallback.Digest]string{}}
	for range p.nodes {
		w.nodes = append(w.nodes, newNode())
	}
	for slot := range p.engines {
		w.instances = append(w.instances, w.newInstance(slot, 0))
	}
	var all sync.WaitGroup
	for _, e := range p.episodes {
		all.Go(func() { w.play(e) })
	}
	for _, c := range p.calls {
		all.Go(func() { w.call(c) })
	}
	time.Sleep(healed)
	w.settle()
	all.Wait()
	w.close()
	return w
}

func (w *world) instance(slot int) *instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[slot]
}

func (w *world) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// calm: all faults are over.
func (w *world) calm() bool { return w.h.now() >= healed }

// on reports whether an episode is under way that meets the target.
func (w *world) on(kind string, target int) bool {
	now := w.h.now()
	for _, e := range w.plan.episodes {
		if e.kind == kind && (e.target == target || e.target < 0) && e.from <= now && now < e.to {
			return true
		}
	}
	return false
}

// play does what an episode does by itself; the rest is in what arrives.
func (w *world) play(e episode) {
	time.Sleep(e.from)
	switch e.kind {
	case nodeOut:
		w.nodes[e.target].hangUp()
	case nodeEmptied:
		w.nodes[e.target].empty()
	case killed:
		in := w.instance(e.target)
		if in.isDead() {
			return
		}
		in.kill()
		time.Sleep(e.to - w.h.now())
		next := w.newInstance(e.target, in.life+1)
		w.mu.Lock()
		w.instances[e.target] = next
		w.mu.Unlock()
	}
}

// call is one client's call. Of an engine that has died it never hears.
func (w *world) call(c callPlan) {
	time.Sleep(c.at)
	w.ask(w.instance(c.engine), c, false)
}

func (w *world) ask(in *instance, c callPlan, last bool) *answer {
	ctx, stop := context.WithTimeout(in.ctx, c.patience)
	defer stop()
	key := w.plan.keys[c.key]
	a := &answer{began: w.h.now(), last: last, noWait: c.noWait, outcome: "none"}
	policy := key.policy
	if c.noWait {
		policy.Wait = redfence.NoWait
	}
	if key.hook {
		policy.Recover = w.account(key)
	}
	req := redfence.Request{ID: key.id, Policy: &policy, Fingerprint: redfence.Fingerprint{Version: 1, Sum: []byte(c.request)}}
	func() {
		defer func() { a.panicked = recover() != nil }()
		res, err := in.Do(ctx, req, w.handler(in, c, &a.starts))
		a.err, a.durable = err, res.Durable
		if res.Outcome != 0 {
			a.outcome, a.content = res.Outcome.String(), string(res.Response.Body)
			if err != nil {
				a.content = "error: " + err.Error()
			}
		}
	}()
	if in.isDead() {
		return nil
	}
	if took, most := w.h.now()-a.began, c.patience+c.work.takes+patienceMargin; took > most {
		w.problem("%s: call %d returned after %v, more than %v", key.id, c.id, took, most)
	}
	w.h.add(event{kind: answered, key: key.id, who: in.name, call: c.id, request: c.request, answer: a})
	return a
}

// patienceMargin is how long a call may take beyond its context and its
// handler: for statements in flight, and while its engine stands still.
const patienceMargin = 3*ledgerTimeout + 4*lease

// handler does the work of a call, and notes it.
func (w *world) handler(in *instance, c callPlan, starts *int) redfence.Handler {
	return func(ctx context.Context, ex *redfence.Execution) (redfence.Response, error) {
		*starts++
		key := ex.Key().ID
		w.h.add(event{kind: started, key: key, who: in.name, call: c.id, fence: ex.Fence(), attempt: ex.Attempt(), request: c.request})
		done := func(r result) {
			if !in.isDead() { // else it never gets there
				w.h.add(event{kind: returned, key: key, who: in.name, call: c.id, fence: ex.Fence(), result: r})
			}
		}
		if !w.labour(ctx, in, c.work) {
			done(cutShort)
			return redfence.Response{}, fmt.Errorf("%s: %w", content(c, ex.Fence()), context.Cause(ctx))
		}
		return finish(ctx, ex, c, done)
	}
}

// labour takes its time; false: it was told to stop.
func (w *world) labour(ctx context.Context, in *instance, job work) bool {
	timer := time.NewTimer(job.takes)
	defer timer.Stop()
	var told <-chan struct{}
	if job.obeys {
		told = ctx.Done()
	}
	select {
	case <-timer.C:
	case <-told:
		in.stand()
		return false
	case <-in.ctx.Done():
		return false
	}
	in.stand()
	return true
}

var errWork = errors.New("the work failed")

func finish(ctx context.Context, ex *redfence.Execution, c callPlan, done func(result)) (redfence.Response, error) {
	text := content(c, ex.Fence())
	if c.work.result == streams {
		if err := ex.Unreplayable(ctx, 200, "it streams"); err != nil {
			done(forgone)
			return redfence.Response{}, redfence.Undone(err)
		}
	}
	done(c.work.result)
	switch c.work.result {
	case stores:
		return redfence.Response{}, redfence.Store(errors.New(text))
	case undone:
		return redfence.Response{}, redfence.Undone(errWork)
	case fails:
		return redfence.Response{}, fmt.Errorf("%s: %w", text, errWork)
	case panics:
		panic(errWork)
	case tooLarge:
		return redfence.Response{Body: append([]byte(text), incompressible(2*maxResponse)...)}, nil
	}
	return redfence.Response{Status: 200, Body: []byte(text)}, nil
}

// content is what a handler answers: it names the request, the call and the
// claim that it comes from.
func content(c callPlan, fence int64) string {
	return fmt.Sprintf("request %s, call %d, fence %d", c.request, c.id, fence)
}

func incompressible(n int) []byte {
	b := make([]byte, n)
	for i, x := 0, uint32(1); i < n; i++ {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// account is a recovery hook that knows what the handler has done: what a
// payment provider would tell. A handler that may still act is not told of.
func (w *world) account(key keyPlan) redfence.Recover {
	return func(_ context.Context, u redfence.UnknownKey) (redfence.Recovery, error) {
		events := w.h.of(key.id)
		for i := len(events) - 1; i >= 0; i-- {
			if e := events[i]; e.fence == u.Fence && e.kind == returned {
				if e.result == answers || e.result == stores {
					text := content(w.plan.find(e.call), e.fence)
					return redfence.Recovery{Response: &redfence.Response{Status: 200, Body: []byte(text)}}, nil
				}
				return redfence.Recovery{}, nil
			}
		}
		if w.hasDied(u.Owner) {
			return redfence.Recovery{Release: true}, nil
		}
		return redfence.Recovery{}, nil
	}
}

func (w *world) hasDied(owner string) bool {
	for _, e := range w.h.of("") {
		if e.kind == died && e.who == owner {
			return true
		}
	}
	return false
}

// settle asks every engine for every key, once all faults are over.
func (w *world) settle() {
	var all sync.WaitGroup
	for slot := range w.instances {
		all.Go(func() {
			w.await(slot, "primary route", func(in *instance) bool { return in.Route() == observe.Primary })
		})
	}
	for i := range w.plan.keys {
		for slot := range w.instances {
			all.Go(func() {
				c := w.plan.last(i, slot)
				w.await(slot, "verdict of "+w.plan.keys[i].id, func(in *instance) bool { return w.settled(w.ask(in, c, true), c) })
			})
		}
	}
	all.Wait()
}

// await tries something with the engine of a slot until it succeeds or the
// bound is over.
func (w *world) await(slot int, what string, try func(*instance) bool) {
	for !try(w.instance(slot)) {
		if w.h.now() > healed+bound {
			w.problem("engine %d: no %s within %v of the end of all faults", slot, what, bound)
			return
		}
		time.Sleep(lease)
	}
}

// settled: the answer is one that stays. Whether it is the right one is the
// judge's business.
func (w *world) settled(a *answer, c callPlan) bool {
	switch {
	case a == nil:
		return false
	case a.durable, errors.Is(a.err, redfence.ErrNotReplayable), errors.Is(a.err, redfence.ErrMismatch):
		return true
	case errors.Is(a.err, redfence.ErrUnknownOutcome): // its owner may still tell, or the hook when a lost call's term is over
		patience := 2 * maxProcessing
		if w.plan.keys[c.key].hook {
			patience += hookTerm
		}
		return w.h.now() > healed+patience
	}
	return false
}

// last is a call of the end.
func (p *plan) last(key, engine int) callPlan {
	return callPlan{
		id: 1000 + key*p.engines + engine, engine: engine, key: key, request: "one",
		patience: 4 * maxProcessing, work: work{result: answers},
	}
}

func (p *plan) find(id int) callPlan {
	if id < 1000 {
		return p.calls[id]
	}
	return p.last((id-1000)/p.engines, (id-1000)%p.engines)
}

// close ends all engines, which have to drain in time.
func (w *world) close() {
	for _, in := range w.instances {
		ctx, stop := context.WithTimeout(context.Background(), bound)
		if err := in.Close(ctx); err != nil {
			w.problem("%s: %v", in.name, err)
		}
		stop()
		in.end()
		in.hangUp()
	}
	synctest.Wait() // a dead engine may have sent without anybody waiting for it
	w.background.Wait()
	time.Sleep(bound) // for what ends by itself in time, such as a dial
}

// episodes are the faults that last, for a report.
func (w *world) episodes() string {
	var b strings.Builder
	fmt.Fprintf(&b, "statements %+v, packets %+v of a thousand\n", w.plan.ledger, w.plan.redis)
	for _, e := range w.plan.episodes {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}
