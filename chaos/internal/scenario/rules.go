package scenario

import (
	"net/http"
	"time"
)

// soon is longer than an answer takes that nothing holds up.
const soon = 300 * time.Millisecond

// ruleScenarios each turn on one rule of the protocol: they are what a broken
// engine shows itself in.
var ruleScenarios = []Scenario{
	{"e4", "stale-claim-completes", "Retry: an owner stopped after its handler goes on while another works under a new claim", func(s *stage) {
		s.exceptions.Starts[s.key] = 2
		one := s.player(with{args: retry, failpoints: map[string]string{"before-complete": "wait"}})
		two := s.player(with{args: retry})
		first := one.begin(s.key, asks{})
		one.reached("before-complete")
		s.rig("stop the owner", one.Program.Pause())
		s.sleep(2 * lease)
		second := two.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 2)
		s.open("before-complete")
		s.rig("let the owner go on", one.Program.Resume())
		stale := s.await(first)
		s.never(stale.OK() && stale.Durable, "the stale claim has completed: %s is answered as durable", stale.Body)
		s.open("go")
		s.expect(s.await(second).Durable, "the new owner got no durable answer")
		one.served(s.key)
	}},
	{"x3", "owner-dies-before-its-completion", "no answer leaves, and none is cached, before the ledger has it", func(s *stage) {
		one := s.player(with{args: shortLease, failpoints: map[string]string{"before-complete": "wait"}})
		two := s.player(with{args: shortLease})
		first := one.begin(s.key, asks{})
		one.reached("before-complete")
		select {
		case op := <-first:
			s.never(op.OK(), "the owner's client was answered %s before the completion", op.Body)
		case <-time.After(soon):
		}
		op := two.post(s.key, asks{})
		s.never(op.OK(), "answered %s before the completion", op.Body)
		s.rig("kill the owner", one.Program.Kill())
		s.sleep(2 * lease)
		two.refused(s.key)
		s.state(s.key, "unknown")
	}},
	{"x4", "asked-long-after-the-lapse", "Hold: nobody asks until long after the dead owner's lease", func(s *stage) {
		one := s.player(with{args: shortLease, failpoints: map[string]string{"before-complete": "exit"}})
		two := s.player(with{args: shortLease})
		one.post(s.key, asks{})
		one.reached("before-complete")
		s.sleep(lease + 2500*time.Millisecond) // the sweeper comes by once a second
		op := two.post(s.key, asks{})
		s.expect(op.Status == http.StatusConflict, "answered %d %s, want 409", op.Status, op.Body)
		s.state(s.key, "unknown")
	}},
	{"z", "rows-own-policy", "a roll-out from Hold to Retry: what a dead owner left is treated by its own policy", func(s *stage) {
		s.needsLedger()
		one := s.player(with{args: shortLease, failpoints: map[string]string{"before-complete": "exit"}})
		two := s.player(with{args: retry})
		one.post(s.key, asks{})
		one.reached("before-complete")
		for end := time.Now().Add(2 * lease); time.Now().Before(end); s.sleep(lease / 6) {
			two.refused(s.key)
		}
		s.state(s.key, "unknown")
	}},
	{"q3", "reply-of-a-denied-claim-lost", "the ledger has denied a claim and its reply is lost", func(s *stage) {
		s.needsLedger()
		one := s.player(with{failpoints: map[string]string{"after-claim": "error*2"}})
		op := one.post(s.key, asks{then: "fail"}) // its claim's reply is lost as well
		s.expect(op.Status == http.StatusInternalServerError, "the owner's client got %d %s", op.Status, op.Body)
		s.state(s.key, "unknown")
		op = one.post(s.key, asks{})
		s.expect(!op.OK(), "the outcome is unknown, and the answer is %d %s", op.Status, op.Body)
		s.happened(one.Hits("after-claim") == 2, "the claims did not both lose their reply")
		one.refused(s.key)
	}},
	{"w", "another-request-same-key", "another request under a key in flight, and under one that has its answer", func(s *stage) {
		s.needsLedger() // the baselines compare no requests
		one, two := s.player(with{}), s.player(with{})
		one.served(s.key)
		one.mismatched(s.key)
		two.mismatched(s.key)
		s.kill(0, 1, 2, 3, 4)
		two.onRoute("fallback")
		two.mismatched(s.key)
		other := s.key + "-in-flight"
		first := one.begin(other, asks{waitFor: "go"})
		s.started(other, 1)
		one.mismatched(other)
		two.mismatched(other)
		s.open("go")
		s.expect(s.await(first).OK(), "the owner got no answer")
	}},
	{"g2", "retention-counts-from-the-completion", "a handler takes a good part of the retention; the answer stays for all of it", func(s *stage) {
		// The row outlives max-processing and its margin (1 s) in any case.
		brief := []string{"-lease", "300ms", "-max-processing", "2500ms", "-retention", "4s"}
		one, two := s.player(with{args: brief}), s.player(with{args: brief})
		first := one.post(s.key, asks{took: 2 * time.Second})
		s.expect(first.OK(), "the owner's client got %d %s", first.Status, first.Body)
		s.sleep(2300 * time.Millisecond) // more than 4 s after the claim
		two.served(s.key)
	}},
}

// mismatched posts another request under the key. It is no part of the history:
// the checks take every request of a key for the same.
func (p *player) mismatched(key string) {
	op := p.send(p.stage.ctx, key, asks{other: true})
	p.stage.never(op.OK(), "another request was answered %d %s", op.Status, op.Body)
	p.stage.expect(op.Status == http.StatusUnprocessableEntity, "another request was answered %d %s%s, want 422", op.Status, op.Body, op.Err)
}
