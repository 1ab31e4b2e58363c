package scenario

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redfence/redfence/chaos/internal/check"
)

// Lapses are waited for, so leases are short. A lapse is noticed by the
// ledger's clock only.
const lease = 600 * time.Millisecond

var (
	shortLease = []string{"-lease", lease.String(), "-max-processing", "20s"}
	retry      = append([]string{"-policy", "retry"}, shortLease...)
)

// ownerScenarios are about handlers that are slow, fail or die.
var ownerScenarios = []Scenario{
	{"e", "handler-longer-than-the-lock", "a handler runs for several leases, which are renewed", func(s *stage) {
		one, two := s.player(with{args: shortLease}), s.player(with{args: shortLease})
		first := one.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		for end := time.Now().Add(4 * lease); time.Now().Before(end); s.sleep(lease / 6) {
			two.refused(s.key)
		}
		s.open("go")
		s.expect(s.await(first).OK(), "the owner got no answer")
		two.served(s.key)
	}},
	{"e2", "stopped-past-the-lease", "SIGSTOP past the lease under Hold: nobody takes over, the owner completes late", func(s *stage) {
		one, two := s.player(with{args: shortLease}), s.player(with{args: shortLease})
		first := one.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		s.rig("stop the owner", one.Program.Pause())
		for end := time.Now().Add(3 * lease); time.Now().Before(end); s.sleep(lease / 6) {
			two.refused(s.key)
		}
		s.open("go")
		s.rig("let the owner go on", one.Program.Resume())
		s.expect(s.await(first).OK(), "the owner got no answer")
		two.served(s.key)
	}},
	{"e3", "stopped-past-the-lease-retry", "SIGSTOP past the lease under Retry: the stale claim cannot complete", func(s *stage) {
		s.exceptions.Starts[s.key] = 2
		one, two := s.player(with{args: retry}), s.player(with{args: retry})
		first := one.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		s.rig("stop the owner", one.Program.Pause())
		two.refused(s.key)
		s.open("go")
		two.served(s.key)
		s.rig("let the owner go on", one.Program.Resume())
		stale := s.await(first)
		s.never(stale.OK() && stale.Durable && !stale.Replayed, "the stale owner answered %d %s as durable", stale.Status, stale.Body)
		s.expect(s.starts(s.key) == 2, "%d starts, want 2", s.starts(s.key))
		one.served(s.key)
	}},
	{"m", "fails-after-its-effect", "a handler answers 500 after its effect: unknown, never again by itself", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		op := one.post(s.key, asks{then: "fail"})
		s.expect(op.Status == http.StatusInternalServerError, "the owner's client got %d", op.Status)
		two.refused(s.key)
		one.refused(s.key)
	}},
	{"n", "client-gone", "the client vanishes while the handler is at work", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		gone, leave := context.WithCancel(s.ctx)
		done := make(chan struct{})
		s.group.Go(func() {
			defer close(done)
			one.postIn(gone, s.key, asks{waitFor: "go"})
		})
		s.started(s.key, 1)
		leave()
		<-done
		two.refused(s.key)
		s.open("go")
		two.served(s.key)
	}},
	{"n2", "handler-panics", "a handler panics after its effect: unknown, never again by itself", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		op := one.post(s.key, asks{then: "panic"})
		s.expect(!op.OK(), "the owner's client got %d", op.Status)
		two.refused(s.key)
	}},
	{"x", "owner-dies-after-its-effect", "Hold: the key is unknown and does not run again", func(s *stage) {
		one := s.player(with{args: shortLease, failpoints: map[string]string{"before-complete": "exit"}})
		two := s.player(with{args: shortLease})
		one.post(s.key, asks{})
		one.reached("before-complete")
		for end := time.Now().Add(3 * lease); time.Now().Before(end); s.sleep(lease / 6) {
			two.refused(s.key)
		}
		s.state(s.key, "unknown")
	}},
	{"x2", "owner-dies-after-its-effect-retry", "Retry: another takes over after the lease, under a larger fence", func(s *stage) {
		s.exceptions.Starts[s.key] = 2
		one := s.player(with{args: retry, failpoints: map[string]string{"before-complete": "exit"}})
		two := s.player(with{args: retry})
		one.post(s.key, asks{})
		one.reached("before-complete")
		two.refused(s.key)
		two.served(s.key)
		s.expect(s.starts(s.key) == 2, "%d starts, want 2", s.starts(s.key))
	}},
	{"y", "owner-dies-before-its-effect", "Hold: nobody can know, so the key does not run again", func(s *stage) {
		one := s.player(with{args: shortLease, failpoints: map[string]string{"before-effect": "exit"}})
		two := s.player(with{args: shortLease})
		one.post(s.key, asks{})
		one.reached("before-effect")
		for end := time.Now().Add(3 * lease); time.Now().Before(end); s.sleep(lease / 6) {
			two.refused(s.key)
		}
		s.state(s.key, "unknown")
		s.expect(s.starts(s.key) == 0, "%d starts, want none", s.starts(s.key))
	}},
	{"y2", "owner-dies-before-its-effect-retry", "Retry: another runs it after the lease", func(s *stage) {
		one := s.player(with{args: retry, failpoints: map[string]string{"before-effect": "exit"}})
		two := s.player(with{args: retry})
		one.post(s.key, asks{})
		one.reached("before-effect")
		two.refused(s.key)
		two.served(s.key)
		s.expect(s.starts(s.key) == 1, "%d starts, want 1", s.starts(s.key))
	}},
}

// state waits until the ledger's row of a key is in the state, where there is
// a ledger.
func (s *stage) state(key, want string) {
	if !s.setup().Ledger() {
		return
	}
	s.eventually(check.Liveness, 10*time.Second, func() string {
		rows, err := s.stores.Rows(s.ctx, []string{key})
		if err != nil || len(rows) != 1 || rows[0].State != want {
			return fmt.Sprintf("the row of %s is %v (%v), want %s", key, rows, err, want)
		}
		return ""
	})
}
