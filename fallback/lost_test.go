package fallback_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

func holdPolicy() fallback.Policy {
	return fallback.Policy{Lease: time.Minute, MaxProcessing: time.Minute, MaxAttempts: 5, Retention: time.Hour}
}

func newRequest(p fallback.Policy) fallback.ClaimRequest {
	k := fallback.Key{Namespace: "do", Scope: "acme", ID: rand.Text()}
	return fallback.ClaimRequest{
		Key: k, Digest: k.Digest(), Token: fallback.NewToken(), Owner: "test/1",
		Fingerprint: fallback.Fingerprint{Version: 1, Sum: []byte("body")}, Policy: p,
	}
}

func refOf(r fallback.ClaimRequest, fence int64) fallback.Ref {
	return fallback.Ref{Digest: r.Digest, Token: r.Token, Fence: fence}
}

// brisk makes time-outs short, so that a lost answer is given up soon.
func brisk(c *fallback.Config) {
	c.StatementTimeout, c.LockTimeout = 400*time.Millisecond, 100*time.Millisecond
	c.Sweep.Grace, c.Listen.Off = time.Minute, true
}

func mustClaim(t testing.TB, l fallback.Ledger, r fallback.ClaimRequest) fallback.Ref {
	t.Helper()
	v, err := l.Claim(t.Context(), r)
	if err != nil {
		t.Fatalf("Claim: %v", err)
	}
	if v.Granted == nil {
		t.Fatalf("Claim: in the way is %+v", v.Row)
	}
	return refOf(r, v.Granted.Fence)
}

func mustRead(t testing.TB, l fallback.Ledger, d fallback.Digest) fallback.Record {
	t.Helper()
	r, err := l.Read(t.Context(), d)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return r
}

// TestI29LostReply: the claim commits, its answer is lost. The verdict is
// unknown; a re-read finds the claim under its token, with a deadline.
func TestI29LostReply(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	link, via := newLink(t, server.URL())
	l := openLedger(t, newPool(t, via, noPing), brisk)
	direct := openLedger(t, newPool(t, server.URL()), brisk)

	r := newRequest(holdPolicy())
	mustClaim(t, l, newRequest(holdPolicy())) // the connection is there and admitted
	link.losing(true)
	result := make(chan error, 1)
	go func() {
		_, err := l.Claim(t.Context(), r)
		result <- err
	}()
	eventually(t, "the claim commits", func() bool {
		return mustRead(t, direct, r.Digest).State == fallback.Processing
	})
	link.cut()
	link.losing(false)
	err := <-result
	var unconfirmed *fallback.UnconfirmedError
	if !errors.As(err, &unconfirmed) || !errors.Is(err, fallback.ErrUnconfirmed) {
		t.Fatalf("got %v, want ErrUnconfirmed", err)
	}
	before := time.Now()
	row := mustRead(t, l, r.Digest)
	if row.Token != r.Token || row.Grant == nil {
		t.Fatalf("re-read: %+v", row)
	}
	if row.Grant.Deadline.Before(before) || row.Grant.Deadline.After(time.Now().Add(time.Minute)) {
		t.Fatalf("deadline %v", row.Grant.Deadline)
	}
	if _, err := l.Complete(t.Context(), fallback.Completion{Ref: refOf(r, row.Fence), Response: []byte("ok")}); err != nil {
		t.Fatal(err)
	}
}

// TestI55GhostClaim: the first send of a claim is delayed on the way, another
// attempt is granted and released, then the first lands after its not-after.
func TestI55GhostClaim(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	link, via := newLink(t, server.URL())
	l := openLedger(t, newPool(t, via, noPing), brisk)
	direct := openLedger(t, newPool(t, server.URL()), brisk)

	delayed := func(r fallback.ClaimRequest) time.Time {
		t.Helper()
		mustClaim(t, l, newRequest(holdPolicy()))
		link.holding(true)
		result := make(chan error, 1)
		go func() {
			_, err := l.Claim(t.Context(), r)
			result <- err
		}()
		eventually(t, "the claim is on its way", func() bool { return link.keeping() > 0 })
		link.cutClients()
		err := <-result
		link.holding(false)
		var unconfirmed *fallback.UnconfirmedError
		if !errors.As(err, &unconfirmed) {
			t.Fatalf("got %v, want an UnconfirmedError", err)
		}
		return unconfirmed.NotAfter
	}
	deliver := func() {
		t.Helper()
		link.losing(true)
		link.deliver()
		eventually(t, "the server answers the delayed claim", func() bool { return link.answered() > 0 })
		link.cut()
		link.losing(false)
	}

	t.Run("after its not-after it claims nothing", func(t *testing.T) {
		r := newRequest(holdPolicy())
		notAfter := delayed(r)
		second := r
		second.Token = fallback.NewToken()
		mine := mustClaim(t, direct, second)
		if err := direct.Release(t.Context(), mine, "undone"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "not-after passes", func() bool {
			return mustRead(t, direct, r.Digest).Now.After(notAfter)
		})
		deliver()
		if row := mustRead(t, direct, r.Digest); row.State != fallback.Released || row.Token == r.Token {
			t.Fatalf("a ghost claim: %+v", row)
		}
	})
	t.Run("before it the claim is found by its token and released", func(t *testing.T) {
		r := newRequest(holdPolicy())
		notAfter := delayed(r)
		deliver()
		eventually(t, "the attempt ends", func() bool {
			row := mustRead(t, direct, r.Digest)
			if row.Token == r.Token && row.State == fallback.Processing {
				if err := direct.Release(t.Context(), refOf(r, row.Fence), "never started"); err != nil {
					t.Fatal(err)
				}
			}
			return row.Now.After(notAfter)
		})
		if row := mustRead(t, direct, r.Digest); row.State == fallback.Processing {
			t.Fatalf("a ghost claim: %+v", row)
		}
	})
}

// noPing keeps the pool from asking an idle connection whether it lives: only
// what the ledger sends is on the link.
func noPing(c *pgxpool.Config) {
	c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
}

// asRole makes a pool's sessions act as a role.
func asRole(role string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["role"] = role }
}

// newCleanupConn connects while a test ends, when its pools may be closed.
func newCleanupConn(t testing.TB, pool *pgxpool.Pool) *pgx.Conn {
	t.Helper()
	c, err := pgx.ConnectConfig(context.WithoutCancel(t.Context()), pool.Config().ConnConfig.Copy())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClaimStuckInItsCommit: a claim begins before its not-after and stays in
// its commit (a disk or a standby that stalls) until long after. A re-read does
// not say that there is no claim before that commit has ended.
func TestClaimStuckInItsCommit(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	link, via := newLink(t, server.URL())
	l := openLedger(t, newPool(t, via, noPing), brisk)
	direct := newPool(t, server.URL())
	exec(t, direct, `CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.namespace = 'stall' THEN PERFORM pg_sleep(8); END IF; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER stall AFTER INSERT ON idempotency_keys
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION stall()`)
	mustClaim(t, l, newRequest(holdPolicy())) // the connection is there
	r := newRequest(holdPolicy())
	r.Key.Namespace = "stall"
	r.Digest = r.Key.Digest()
	result := make(chan error, 1)
	go func() {
		_, err := l.Claim(t.Context(), r)
		result <- err
	}()
	eventually(t, "the claim is in its commit", func() bool {
		var n int
		err := direct.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event = 'PgSleep'`).Scan(&n)
		return err == nil && n == 1
	})
	link.cutClients()
	var unconfirmed *fallback.UnconfirmedError
	if err := <-result; !errors.As(err, &unconfirmed) {
		t.Fatalf("got %v", err)
	}
	busy := 0
	eventually(t, "the re-read finds the claim", func() bool {
		row, err := l.Read(t.Context(), r.Digest)
		switch {
		case errors.Is(err, fallback.ErrBusy):
			busy++
			return false
		case err != nil:
			t.Fatal(err)
		}
		if row.Token != r.Token {
			t.Fatalf("a re-read at %v, not-after %v, says %v while the claim is in its commit", row.Now, unconfirmed.NotAfter, row.State)
		}
		return true
	})
	if busy == 0 {
		t.Error("no re-read had to wait: the test shows nothing")
	}
	mustRead(t, l, r.Digest)
}
