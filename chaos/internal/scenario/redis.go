package scenario

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/chaos/internal/baseline"
	"github.com/redfence/redfence/chaos/internal/check"
)

// redisScenarios are about what Redis nodes forget, and who can reach them.
var redisScenarios = []Scenario{
	{"a", "finished-in-redis-only", "finished, every node lost, retry elsewhere", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		one.served(s.key)
		s.kill(0, 1, 2, 3, 4)
		two.served(s.key)
		s.restart(0, 1, 2, 3, 4)
		two.onRoute("primary")
		two.served(s.key)
		one.served(s.key)
	}},
	{"b", "owner-paused-under-redlock", "owner stands between lock and claim, quorum lost, another instance serves", func(s *stage) {
		one := s.player(with{failpoints: map[string]string{"after-lock": "wait"}})
		two := s.player(with{})
		first := one.begin(s.key, asks{})
		one.reached("after-lock")
		s.kill(0, 1, 2)
		two.served(s.key)
		s.open("after-lock")
		s.await(first)
		one.served(s.key)
	}},
	{"b2", "owner-paused-before-its-effect", "owner stands before its effect, quorum lost, another instance is asked", func(s *stage) {
		one := s.player(with{failpoints: map[string]string{"before-effect": "wait"}})
		two := s.player(with{})
		first := one.begin(s.key, asks{})
		one.reached("before-effect")
		s.kill(0, 1, 2)
		op := two.post(s.key, asks{})
		s.open("before-effect")
		s.expect(s.await(first).OK(), "the owner got no answer")
		s.expect(op.Status == http.StatusConflict, "while the owner stood there, another was answered %d %s", op.Status, op.Body)
		two.served(s.key)
	}},
	{"c", "one-instance-cut-off", "one instance cut off from Redis, the other not, one key in both", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		one.cutRedis()
		one.onRoute("fallback")
		first := two.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		one.refused(s.key)
		other := one.begin(s.key+"-other", asks{waitFor: "go"})
		s.started(s.key+"-other", 1)
		two.refused(s.key + "-other")
		s.open("go")
		s.expect(s.await(first).OK() && s.await(other).OK(), "an owner got no answer")
		one.served(s.key)
		two.served(s.key + "-other")
	}},
	{"d", "one-instance-back", "nodes come back for one instance and not for the other, at work", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		s.kill(0, 1, 2, 3, 4)
		one.onRoute("fallback")
		first := one.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		one.cutRedis()
		s.restart(0, 1, 2, 3, 4)
		two.onRoute("primary")
		two.refused(s.key)
		s.open("go")
		s.expect(s.await(first).OK(), "the owner got no answer")
		two.served(s.key)
	}},
	{"f", "restarted-node-forgets", "a majority forgets the lock while its owner stands before the claim", func(s *stage) {
		one := s.player(with{failpoints: map[string]string{"after-lock": "wait"}})
		two := s.player(with{})
		first := one.begin(s.key, asks{})
		one.reached("after-lock")
		s.restart(0, 1, 2)
		s.kill(3, 4)
		two.served(s.key)
		s.open("after-lock")
		s.await(first)
		one.served(s.key)
	}},
	{"i", "clock-of-a-node", "locks lapse early on a majority, or linger, as after a clock jump", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		first := one.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		s.expire(time.Millisecond, 0, 1, 2)
		two.refused(s.key)
		s.expire(time.Minute, 3, 4)
		s.open("go")
		s.expect(s.await(first).OK(), "the owner got no answer")
		two.served(s.key)
	}},
	{"k", "cache-write-fails", "the response reaches no node", func(s *stage) {
		one := s.player(with{failpoints: map[string]string{"before-cache-put": "error"}})
		two := s.player(with{})
		one.served(s.key)
		one.reached("before-cache-put")
		two.served(s.key)
	}},
	{"l", "two-node-sets", "two instances with different node sets during a roll-out", func(s *stage) {
		one := s.player(with{nodes: []int{0, 1, 2}, failpoints: map[string]string{"after-lock": "wait"}})
		two := s.player(with{nodes: []int{2, 3, 4}})
		first := one.begin(s.key, asks{})
		one.reached("after-lock")
		s.expire(time.Millisecond, 2)
		two.served(s.key)
		s.open("after-lock")
		s.await(first)
		one.served(s.key)
	}},
	{"p", "begun-before-the-breaker-opened", "a request stands before the lock while its instance changes its route", func(s *stage) {
		one := s.player(with{failpoints: map[string]string{"before-lock": "wait"}})
		two := s.player(with{})
		first := one.begin(s.key, asks{})
		one.reached("before-lock")
		s.kill(0, 1, 2, 3, 4)
		one.onRoute("fallback")
		two.served(s.key)
		s.open("before-lock")
		s.await(first)
		one.served(s.key)
	}},
	{"q", "reply-of-the-acquire-lost", "a majority takes the lock and its replies are lost", func(s *stage) {
		one := s.player(with{failpoints: map[string]string{"before-lock": "wait"}})
		two := s.player(with{})
		first := one.begin(s.key, asks{})
		one.reached("before-lock")
		for _, link := range one.Redis[:3] {
			link.CutReplies(1)
		}
		s.open("before-lock")
		s.expect(s.await(first).OK(), "the owner got no answer")
		two.served(s.key)
		s.eventually(check.Liveness, 15*time.Second, s.locksLeft)
	}},
	{"v", "taken-lock-of-a-finished-key", "the owner has answered and its lock is still there, the caches are empty", func(s *stage) {
		one := s.player(with{failpoints: map[string]string{"before-unlock": "error", "before-cache-put": "error"}})
		two := s.player(with{})
		one.served(s.key)
		one.reached("before-unlock")
		s.happened(s.locksLeft() != "", "the lock is gone")
		op := two.post(s.key, asks{})
		s.expect(op.Status == http.StatusOK, "answered %d %s, want the response", op.Status, op.Body)
	}},
	{"o", "contention-is-no-outage", "many duplicates of a key at work must not open the breaker", func(s *stage) {
		one, two := s.player(with{}), s.player(with{})
		first := one.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		for range 30 {
			two.refused(s.key)
		}
		two.onRoutePrimaryAtOnce()
		s.open("go")
		s.expect(s.await(first).OK(), "the owner got no answer")
		two.served(s.key)
	}},
}

// onRoutePrimaryAtOnce posts one fresh key, which must take the primary route.
func (p *player) onRoutePrimaryAtOnce() {
	fresh := p.stage.key + "-fresh"
	op := p.post(fresh, asks{})
	got := p.stage.recorder.StartedOn(fresh)
	p.stage.expect(op.OK() && got == "primary", "a fresh key is answered %d by the %s route", op.Status, got)
}

// locks returns the names of the engine's processing locks on a node.
func (s *stage) locks(node *redis.Client) []string {
	pattern := "rf1:*:l"
	if !s.setup().Ledger() {
		pattern = baseline.LockPattern
	}
	names, err := node.Keys(s.ctx, pattern).Result()
	s.rig("list the locks of a node", err)
	return names
}

// expire changes how long the locks on the nodes live.
func (s *stage) expire(after time.Duration, on ...int) {
	for _, i := range on {
		client := s.stores.Redis[i].Client()
		for _, name := range s.locks(client) {
			s.rig("change the life of a lock", client.PExpire(s.ctx, name, after).Err())
		}
	}
	if after > 10*time.Millisecond {
		return
	}
	s.eventually(check.Invalid, 5*time.Second, func() string {
		for _, i := range on {
			if names := s.locks(s.stores.Redis[i].Client()); len(names) > 0 {
				return fmt.Sprintf("node %d still has %s", i, strings.Join(names, " "))
			}
		}
		return ""
	})
}

// locksLeft says which locks are left on the nodes.
func (s *stage) locksLeft() string {
	for i, node := range s.stores.Redis {
		if names := s.locks(node.Client()); len(names) > 0 {
			return fmt.Sprintf("node %d still has %s", i, strings.Join(names, " "))
		}
	}
	return ""
}
