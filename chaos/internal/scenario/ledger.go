package scenario

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/chaos/internal/check"
)

// ledgerScenarios are about Postgres dying, blocking and losing replies.
var ledgerScenarios = []Scenario{
	{"g", "row-expired", "a retry after the retention is a new life of the key", func(s *stage) {
		s.exceptions.Expired[s.key] = true
		brief := []string{"-lease", "300ms", "-max-processing", "500ms", "-retention", "500ms"}
		one, two := s.player(with{args: brief}), s.player(with{args: brief})
		first := one.served(s.key)
		again := two.served(s.key)
		s.expect(again.Body == first.Body, "the first retry got %s, want %s", again.Body, first.Body)
		s.started(s.key, 1)
		s.renewed(two, first.Body)
		second := one.served(s.key)
		s.expect(second.Body == two.served(s.key).Body, "the second life has two answers")
		s.expect(s.starts(s.key) == 2, "%d starts, want 2", s.starts(s.key))
	}},
	{"h", "ledger-killed-before-completion", "Postgres dies between claim and completion and comes back", func(s *stage) {
		s.needsLedger()
		one := s.player(with{failpoints: map[string]string{"before-complete": "wait"}})
		two := s.player(with{})
		first := one.begin(s.key, asks{})
		one.reached("before-complete")
		s.rig("kill Postgres", s.stores.Postgres.Kill())
		s.open("before-complete")
		if op := s.await(first); op.OK() {
			s.expect(!op.Durable, "the answer is marked as durable while Postgres is down")
		}
		s.rig("restart Postgres", s.stores.Postgres.Restart())
		two.served(s.key)
		one.served(s.key)
	}},
	{"h2", "asynchronous-commit", "the database's default is asynchronous commit; Postgres dies right after an answer", func(s *stage) {
		s.configure("ALTER SYSTEM SET synchronous_commit = off", "ALTER SYSTEM SET wal_writer_delay = '10s'")
		defer s.configure("ALTER SYSTEM RESET ALL")
		one, two := s.player(with{}), s.player(with{})
		two.served(s.key + "-warm")
		one.served(s.key)
		s.rig("kill Postgres", s.stores.Postgres.Kill())
		s.kill(0, 1, 2, 3, 4)
		s.rig("restart Postgres", s.stores.Postgres.Restart())
		s.restart(0, 1, 2, 3, 4)
		two.served(s.key)
	}},
	{"k2", "reply-of-the-completion-lost", "the ledger has recorded the completion and its reply is lost", func(s *stage) {
		s.needsLedger()
		one := s.player(with{failpoints: map[string]string{"before-complete": "wait"}})
		two := s.player(with{})
		first := one.begin(s.key, asks{})
		one.reached("before-complete")
		one.Postgres.CutReplies(1)
		s.open("before-complete")
		s.await(first)
		s.happened(one.Postgres.Cuts() == 0, "no reply was cut off")
		two.served(s.key)
		one.served(s.key)
	}},
	{"q2", "reply-of-the-claim-lost", "the ledger has granted the claim and its reply is lost", func(s *stage) {
		s.needsLedger()
		one := s.player(with{args: shortLease, failpoints: map[string]string{"before-claim": "wait"}})
		two := s.player(with{args: shortLease})
		first := one.begin(s.key, asks{})
		one.reached("before-claim")
		one.Postgres.CutReplies(1)
		s.open("before-claim")
		s.await(first)
		s.happened(one.Postgres.Cuts() == 0, "no reply was cut off")
		two.served(s.key)
		one.served(s.key)
	}},
	{"t", "row-locked-by-another-session", "a stopped session holds the row's lock", func(s *stage) {
		s.needsLedger()
		one, two := s.player(with{}), s.player(with{})
		first := one.begin(s.key, asks{waitFor: "go"})
		s.started(s.key, 1)
		release := s.lockRow(s.key)
		s.expect(!two.post(s.key, asks{}).OK(), "a duplicate of a locked row got an answer")
		s.open("go")
		s.sleep(time.Second) // the completion meets the lock
		release()
		s.await(first)
		two.served(s.key)
	}},
	{"u", "ledger-down", "finished keys replay from the cache, fresh ones are refused, while Postgres is down", func(s *stage) {
		s.needsLedger()
		one, two := s.player(with{}), s.player(with{})
		first := one.served(s.key)
		two.served(s.key)
		s.rig("kill Postgres", s.stores.Postgres.Kill())
		again := two.served(s.key)
		s.expect(again.Body == first.Body, "the replay is %s, want %s", again.Body, first.Body)
		op := two.post(s.key+"-fresh", asks{})
		s.expect(op.Status == 503 || op.Status == 0, "a fresh key got %d %s", op.Status, op.Body)
		s.expect(s.starts(s.key+"-fresh") == 0, "a fresh key started without a ledger")
		s.rig("restart Postgres", s.stores.Postgres.Restart())
		two.served(s.key + "-fresh")
	}},
}

// needsLedger leaves the scenario out for engines that have none.
func (s *stage) needsLedger() {
	if !s.setup().Ledger() {
		s.end(check.Fine, "about the ledger, which %s has not", s.options.Engine)
	}
}

// renewed posts until another answer than the old one comes.
func (s *stage) renewed(p *player, old string) {
	s.eventually(check.Liveness, 15*time.Second, func() string {
		if op := p.served(s.key); op.Body != old {
			return ""
		}
		s.sleep(50 * time.Millisecond)
		return "the key does not outlive its retention"
	})
}

// configure changes Postgres' settings and restarts it, so that every session
// has them.
func (s *stage) configure(statements ...string) {
	for _, statement := range statements {
		s.rig("configure Postgres", s.stores.Postgres.Exec(context.WithoutCancel(s.ctx), statement))
	}
	s.rig("restart Postgres", s.stores.Postgres.Restart())
}

// lockRow locks the row of a key in a session of its own until the function
// returned is called.
func (s *stage) lockRow(key string) (release func()) {
	ctx := context.WithoutCancel(s.ctx)
	conn, err := pgx.Connect(ctx, s.stores.Postgres.URL())
	s.rig("connect to Postgres", err)
	_, err = conn.Exec(ctx, "BEGIN")
	s.rig("lock a row", err)
	_, err = conn.Exec(ctx, "SELECT FROM idempotency_keys WHERE namespace = 'do' AND id = $1 FOR UPDATE", []byte(key))
	s.rig("lock a row", err)
	return func() { _ = conn.Close(ctx) }
}
