package fallback_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestVerdictNeedsCommit: the rows of a claim arrive, then its commit fails.
// That is no grant.
func TestVerdictNeedsCommit(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool)
	exec(t, pool, `CREATE FUNCTION veto() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.namespace = 'veto' THEN RAISE EXCEPTION 'vetoed at commit' USING ERRCODE = '23514'; END IF; RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER veto AFTER INSERT OR UPDATE ON idempotency_keys
			DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION veto()`)
	r := newRequest(holdPolicy())
	r.Key.Namespace = "veto"
	r.Digest = r.Key.Digest()
	v, err := l.Claim(t.Context(), r)
	if err == nil || v.Granted != nil || errors.Is(err, fallback.ErrUnconfirmed) {
		t.Fatalf("granted %+v, %v", v.Granted, err)
	}
	if row := mustRead(t, l, r.Digest); row.State != fallback.Absent {
		t.Fatalf("the row is %v", row.State)
	}
	mustClaim(t, l, newRequest(holdPolicy())) // the connection is fit for more
}

// TestDeadlineCountsFromTheSend: a claim, a renewal and a re-read that take
// long on the way promise their owner no more than the lease from their send.
func TestDeadlineCountsFromTheSend(t *testing.T) {
	t.Parallel()
	link, via := newLink(t, testenv.Postgres(t).URL())
	l := openLedger(t, newPool(t, via, noPing), func(c *fallback.Config) { c.Listen.Off = true })
	mustClaim(t, l, newRequest(holdPolicy()))
	const delay = 300 * time.Millisecond
	slow := func(call func() time.Time) {
		t.Helper()
		link.holding(true)
		before := time.Now()
		result := make(chan time.Time, 1)
		go func() { result <- call() }()
		eventually(t, "the call is on its way for a while", func() bool {
			return link.keeping() > 0 && time.Since(before) > delay
		})
		link.holding(false)
		link.deliver()
		deadline := <-result
		if limit := before.Add(time.Minute); deadline.After(limit) {
			t.Errorf("the deadline is %v after send and lease", deadline.Sub(limit))
		}
		if deadline.Before(before.Add(50 * time.Second)) {
			t.Errorf("the deadline is only %v after the send", deadline.Sub(before))
		}
	}
	r := newRequest(holdPolicy())
	var mine fallback.Ref
	slow(func() time.Time {
		v, err := l.Claim(t.Context(), r)
		if err != nil || v.Granted == nil {
			t.Errorf("Claim: %+v, %v", v, err)
			return time.Time{}
		}
		mine = refOf(r, v.Granted.Fence)
		return v.Granted.Deadline
	})
	slow(func() time.Time {
		row, err := l.Read(t.Context(), r.Digest)
		if err != nil || row.Grant == nil {
			t.Errorf("Read: %+v, %v", row, err)
			return time.Time{}
		}
		return row.Grant.Deadline
	})
	slow(func() time.Time {
		g, err := l.Renew(t.Context(), mine, false)
		if err != nil {
			t.Errorf("Renew: %v", err)
		}
		return g.Deadline
	})
}

// TestLedgersClockIsStepped: the ledger's clock is far from where it was
// expected. Claims go on, and the estimate is right again.
func TestLedgersClockIsStepped(t *testing.T) {
	t.Parallel()
	l := openLedger(t, newPool(t, testenv.Postgres(t).URL()))
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		l.MisjudgeClock(by)
		mustClaim(t, l, newRequest(holdPolicy()))
		now, margin, ok := l.Clock()
		if truth := mustRead(t, l, fallback.Digest{}).Now; !ok || now.Sub(truth).Abs() > margin+time.Second {
			t.Errorf("after a step of %v the estimate is off by %v", by, now.Sub(truth))
		}
	}
}

// TestServerInTrouble: what the server is short of (disk, memory, connections)
// is the ledger's trouble, not the row's, and it passes.
func TestServerInTrouble(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool)
	exec(t, pool, `CREATE TABLE trouble (code text);
		CREATE FUNCTION trouble() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE c text; BEGIN
			SELECT code INTO c FROM trouble; IF c IS NOT NULL THEN RAISE EXCEPTION 'trouble' USING ERRCODE = c; END IF;
			RETURN NEW; END $$;
		CREATE TRIGGER trouble BEFORE INSERT OR UPDATE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION trouble()`)
	for code, want := range map[string]error{
		"53100": fallback.ErrUnavailable, // disk full
		"53200": fallback.ErrUnavailable, // out of memory
		"25006": fallback.ErrUnavailable, // read only
		"57P03": fallback.ErrUnavailable, // cannot connect now
		"40001": fallback.ErrUnavailable, // for as long as it is tried
		"55P03": fallback.ErrBusy,
	} {
		mine := mustClaim(t, l, newRequest(holdPolicy()))
		exec(t, pool, "INSERT INTO trouble VALUES ('"+code+"')")
		_, claimErr := l.Claim(t.Context(), newRequest(holdPolicy()))
		_, completeErr := l.Complete(t.Context(), fallback.Completion{Ref: mine})
		abandonErr := l.Abandon(t.Context(), mine, "panic")
		for _, err := range []error{claimErr, completeErr, abandonErr} {
			if !errors.Is(err, want) || errors.Is(err, fallback.ErrUnconfirmed) || !strings.Contains(err.Error(), code) {
				t.Errorf("%s is told as %v, want %v", code, err, want)
			}
		}
		exec(t, pool, "DELETE FROM trouble")
		if _, err := l.Complete(t.Context(), fallback.Completion{Ref: mine}); err != nil {
			t.Errorf("after %s: %v", code, err)
		}
	}
}

// TestLeastPrivilege: a role with what PrintGrants prints, and no more, can do
// all that a ledger does.
func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	openLedger(t, pool)
	var grants strings.Builder
	if err := fallback.PrintGrants(&grants, "", "app_role"); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "DROP ROLE IF EXISTS app_role; CREATE ROLE app_role NOLOGIN")
	exec(t, pool, grants.String())
	t.Cleanup(func() {
		admin := newCleanupConn(t, pool)
		ctx := context.WithoutCancel(t.Context())
		defer admin.Close(ctx)
		for _, s := range []string{"DROP OWNED BY app_role", "DROP ROLE app_role"} {
			if _, err := admin.Exec(ctx, s); err != nil {
				t.Error(err)
			}
		}
	})
	app := newPool(t, pool.Config().ConnString(), asRole("app_role"))
	found, err := fallback.Check(t.Context(), app, fallback.Config{})
	if err != nil || mentions(found, "lacks") {
		t.Fatalf("Check: %+v, %v", found, err)
	}
	l := openLedger(t, app, func(c *fallback.Config) { c.Migrate = false })
	r := newRequest(holdPolicy())
	mine := mustClaim(t, l, r)
	if err := l.Abandon(t.Context(), mine, "panic"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Decide(t.Context(), fallback.Decision{Digest: r.Digest, Fence: mine.Fence, State: fallback.Completed, Who: "ops"}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Forget(t.Context(), r.Digest, "ops", "asked"); err != nil {
		t.Fatal(err)
	}
	if audits, err := l.Audits(t.Context(), r.Digest); err != nil || len(audits) != 2 {
		t.Fatalf("%+v, %v", audits, err)
	}
	if ok, err := l.SetNodeSet(t.Context(), "", "a,b,c"); err != nil || !ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if ok, err := l.SetNodeSet(t.Context(), "", "d"); err != nil || ok {
		t.Fatalf("%v, %v", ok, err)
	}
	if set, err := l.NodeSet(t.Context()); err != nil || set.Nodes != "a,b,c" || set.Since.IsZero() {
		t.Fatalf("%+v, %v", set, err)
	}
	if _, err := l.SweepOnce(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	rows, err := l.List(t.Context(), fallback.Filter{State: fallback.Tombstone})
	if err != nil || len(rows) != 1 || rows[0].Digest != r.Digest {
		t.Fatalf("%+v, %v", rows, err)
	}
	exec(t, pool, "UPDATE idempotency_meta SET timeline = '000000FF'")
	app.Reset()
	mustClaim(t, l, newRequest(holdPolicy())) // adopting needs the sequence
}
