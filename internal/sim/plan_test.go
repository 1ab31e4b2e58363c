package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/redfence/redfence"
)

// The times of a run. Faults end at healed; what then does not settle within
// bound never will.
const (
	lease         = time.Second
	maxProcessing = 4 * lease
	ledgerTimeout = 600 * time.Millisecond // of the engine
	silence       = 400 * time.Millisecond // after which the ledger's client gives a statement up
	claimTerm     = 800 * time.Millisecond // in which a claim may still land
	nodeTimeout   = 100 * time.Millisecond
	busy          = 8 * time.Second // while calls begin
	healed        = 10 * time.Second
	hookTerm      = 30 * time.Second // one call of a recovery hook has the key to itself
	bound         = 3*maxProcessing + hookTerm + 10*time.Second
)

// A plan is all that a seed fixes.
type plan struct {
	seed     uint64
	engines  int
	nodes    int
	keys     []keyPlan
	calls    []callPlan
	episodes []episode
	ledger   rates // of statements
	redis    rates // of packets and connections
}

// A keyPlan is how all calls of a key treat it.
type keyPlan struct {
	id     string
	from   time.Duration // when the first calls come; the others soon
	policy redfence.Policy
	hook   bool // Policy.Recover asks the handler's own account
}

// A callPlan is one call of one client.
type callPlan struct {
	id       int
	at       time.Duration
	engine   int
	key      int
	request  string // its fingerprint
	noWait   bool
	patience time.Duration
	work     work
}

// work is what a handler does when the call starts one.
type work struct {
	takes  time.Duration
	obeys  bool // ends with its context
	result result
}

// A result is how a handler ends.
type result string

const (
	answers  result = "answers"
	stores   result = "stores an error"
	undone   result = "undone"
	fails    result = "fails"
	panics   result = "panics"
	tooLarge result = "answers too much"
	streams  result = "streams"
	cutShort result = "cut short" // it obeyed its context
	forgone  result = "forgone"   // it could not stream, and so did nothing
)

// rates are shares of statements, each of a thousand.
type rates struct{ refused, lost, silent, late, stale int }

// An episode is something that lasts.
type episode struct {
	kind     string
	target   int // engine or node; -1: all
	from, to time.Duration
}

func (e episode) String() string {
	return fmt.Sprintf("%v to %v: %s %d", e.from, e.to, e.kind, e.target)
}

const (
	ledgerOut    = "ledger out for engine"
	ledgerSilent = "ledger silent for engine"
	redisOut     = "all nodes out for engine"
	nodeOut      = "node out"
	nodeSilent   = "node silent"
	nodeEmptied  = "node emptied"
	frozen       = "engine frozen"
	killed       = "engine killed"
)

func newPlan(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0))
	p := plan{seed: seed, engines: 2 + r.IntN(2), nodes: 1 + 2*r.IntN(2)}
	p.ledger = pick(r, rates{}, rates{5, 5, 5, 5, 20}, rates{20, 20, 20, 20, 50}, rates{0, 100, 0, 50, 0}, rates{80, 80, 80, 80, 200})
	p.redis = pick(r, rates{}, rates{5, 5, 5, 20, 0}, rates{50, 50, 50, 100, 0})
	for i := range 3 + r.IntN(4) {
		p.keys = append(p.keys, newKey(r, i))
		for range 3 + r.IntN(5) {
			p.calls = append(p.calls, p.newCall(r, i))
		}
	}
	for range r.IntN(5) {
		p.episodes = append(p.episodes, p.newEpisode(r))
	}
	return p
}

// stalled is a plan whose handlers work on when they are told to stop, for up
// to two leases, on engines that stand still for longer than a lease: an owner
// comes back when another has the key.
func stalled(seed uint64) plan {
	p := newPlan(seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range p.calls {
		c := &p.calls[i]
		c.work = work{takes: within(r, 2*lease), result: answers}
		c.noWait, c.patience = false, max(c.patience, 5*lease)
	}
	for i := range p.keys {
		p.keys[i].hook, p.keys[i].policy.CancelOnLost = false, false
	}
	p.episodes = nil
	for range 8 {
		e := episode{kind: frozen}
		p.aim(r, &e)
		e.to = min(e.from+lease+within(r, lease), healed)
		p.episodes = append(p.episodes, e)
	}
	return p
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func newKey(r *rand.Rand, i int) keyPlan {
	k := keyPlan{id: fmt.Sprint("key ", i), from: within(r, busy-3*lease), hook: r.IntN(4) == 0}
	k.policy = redfence.Policy{
		OnAbandoned: pick(r, redfence.Hold, redfence.Retry), Lease: lease, MaxProcessing: maxProcessing, MaxAttempts: 3,
		OnError: pick(r, redfence.ErrorUnknown, redfence.ErrorUnknown, redfence.ErrorReleases, redfence.ErrorStores),
		OnPanic: pick(r, redfence.ErrorUnknown, redfence.ErrorReleases), CancelOnLost: r.IntN(3) == 0,
		Retention: time.Hour,
	}
	return k
}

func (p *plan) newCall(r *rand.Rand, key int) callPlan {
	c := callPlan{
		id: len(p.calls), key: key, engine: r.IntN(p.engines), request: "one",
		at:     p.keys[key].from + pick(r, 0, within(r, lease/4), within(r, 3*lease)),
		noWait: r.IntN(4) == 0, patience: pick(r, 50*time.Millisecond, 500*time.Millisecond, 5*time.Second, 20*time.Second),
	}
	if r.IntN(12) == 0 {
		c.request = "another"
	}
	c.work = work{obeys: r.IntN(3) > 0, result: pick(r, answers, answers, answers, answers, answers, answers, stores, undone, undone, fails, panics, tooLarge, streams)}
	c.work.takes = pick(r, 0, within(r, lease/4), within(r, lease), within(r, 5*lease)) // renewed, or lapsed, or too long
	return c
}

func within(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func (p *plan) newEpisode(r *rand.Rand) episode {
	e := episode{kind: pick(r, ledgerOut, ledgerSilent, redisOut, nodeOut, nodeSilent, nodeEmptied, frozen, frozen, killed, killed), target: -1}
	switch e.kind {
	case nodeOut, nodeSilent, nodeEmptied:
		e.target = r.IntN(p.nodes)
	case frozen, killed:
		e.target = r.IntN(p.engines)
	default:
		if r.IntN(2) == 0 {
			e.target = r.IntN(p.engines)
		}
	}
	e.from = within(r, busy)
	if r.IntN(3) > 0 {
		p.aim(r, &e)
	}
	e.to = min(e.from+lease/5+within(r, 3*lease), healed)
	return e
}

// aim lets an episode begin while a call looks, claims or works.
func (p *plan) aim(r *rand.Rand, e *episode) {
	met := p.calls[r.IntN(len(p.calls))]
	e.from = met.at + pick(r, within(r, 2*quick), within(r, lease/2))
	if e.kind == frozen || e.kind == killed {
		e.target = met.engine
	}
}

// A fate is what one statement or packet meets.
type fate struct {
	kind   fateKind
	before time.Duration // until it takes effect
	after  time.Duration // until its answer is there
	rand   uint64        // for whatever else is to be chosen
}

type fateKind string

const (
	fine    fateKind = "fine"
	refused fateKind = "refused" // an error, and it took no effect
	lost    fateKind = "lost"    // an error, and it took effect
	silent  fateKind = "silent"  // no answer, no effect
	late    fateKind = "late"    // it takes effect after it was given up
	stale   fateKind = "stale"   // a read that shows what was
	quick            = 2 * time.Millisecond
)

// fate depends on nothing but the seed and the name of what is sent.
func (p *plan) fate(of rates, name ...any) fate {
	h := fnv.New64a()
	fmt.Fprintln(h, name...)
	r := rand.New(rand.NewPCG(p.seed, h.Sum64()))
	f := fate{kind: fine, rand: r.Uint64()}
	if r.IntN(2) == 0 { // the others are at once, so that much happens at the same time
		f.before, f.after = within(r, quick), within(r, quick)
	}
	if r.IntN(10) == 0 && of != (rates{}) {
		f.after += within(r, silence)
	}
	n := r.IntN(1000)
	for _, c := range []struct {
		kind fateKind
		rate int
	}{{refused, of.refused}, {lost, of.lost}, {silent, of.silent}, {late, of.late}, {stale, of.stale}} {
		if n -= c.rate; n < 0 {
			f.kind = c.kind
			break
		}
	}
	if f.kind == late {
		f.before = within(r, 2*lease)
	}
	return f
}
