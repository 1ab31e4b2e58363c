package fallback_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/fallback/ledgertest"
	"github.com/redfence/redfence/internal/testenv"
	"github.com/redfence/redfence/observe"
)

func exec(t testing.TB, pool *pgxpool.Pool, script string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

// database returns the quoted name of the pool's database.
func database(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	return pgx.Identifier{pool.Config().ConnConfig.Database}.Sanitize()
}

// TestI36AsynchronousCommit: the database says synchronous_commit=off. Our
// transactions override it, and Check says so. What a transaction had in force
// is told by a trigger.
func TestI36AsynchronousCommit(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).URL()
	admin := newPool(t, url)
	exec(t, admin, "ALTER DATABASE "+database(t, admin)+" SET synchronous_commit = off")
	exec(t, admin, "ALTER DATABASE "+database(t, admin)+" SET tcp_keepalives_idle = 7200")
	pool := newPool(t, url)
	l := openLedger(t, pool)
	exec(t, pool, `CREATE TABLE seen (commit text, statement text, lock text, isolation text);
		CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO seen VALUES (current_setting('synchronous_commit'), current_setting('statement_timeout'),
				current_setting('lock_timeout'), current_setting('transaction_isolation')); RETURN NEW; END $$;
		CREATE TRIGGER look AFTER INSERT OR UPDATE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION look()`)
	mine := mustClaim(t, l, newRequest(holdPolicy()))
	if _, err := l.Renew(t.Context(), mine, false); err != nil {
		t.Fatal(err)
	}
	if err := l.Abandon(t.Context(), mine, "panic"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Complete(t.Context(), fallback.Completion{Ref: mine}); err != nil {
		t.Fatal(err)
	}
	var n, wrong int
	err := pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE (commit, statement, lock, isolation)
		IS DISTINCT FROM ('on', '5s', '500ms', 'read committed')) FROM seen`).Scan(&n, &wrong)
	if err != nil || n != 4 || wrong != 0 {
		t.Fatalf("%d transactions, %d with other settings, %v", n, wrong, err)
	}
	var now string
	if err := pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&now); err != nil || now != "off" {
		t.Fatalf("the session's own setting is %q now, %v", now, err)
	}
	found, err := fallback.Check(t.Context(), pool, fallback.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !mentions(found, "synchronous_commit is off") {
		t.Fatalf("Check does not say it: %+v", found)
	}
	if !mentions(found, "asks a silent client only after") { // the system's default of two hours
		t.Errorf("Check does not say how late the server notices that a client is gone: %+v", found)
	}
}

func mentions(found []fallback.Finding, word string) bool {
	for _, f := range found {
		if strings.Contains(f.What, word) {
			return true
		}
	}
	return false
}

// TestStricterCommitIsKept: remote_apply is stricter than on, and stays.
func TestStricterCommitIsKept(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).URL()
	admin := newPool(t, url)
	exec(t, admin, "ALTER DATABASE "+database(t, admin)+" SET synchronous_commit = remote_apply")
	pool := newPool(t, url)
	l := openLedger(t, pool)
	exec(t, pool, `CREATE TABLE seen (commit text);
		CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$;
		CREATE TRIGGER look AFTER INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION look()`)
	mustClaim(t, l, newRequest(holdPolicy()))
	var commit string
	if err := pool.QueryRow(t.Context(), "SELECT commit FROM seen").Scan(&commit); err != nil || commit != "remote_apply" {
		t.Fatalf("%q, %v", commit, err)
	}
}

// TestStatementTimeoutBounds: the timeout that is set by a statement before
// the main one bounds the main one.
func TestStatementTimeoutBounds(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, brisk)
	exec(t, pool, `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.namespace = 'slow' THEN PERFORM pg_sleep(60); END IF; RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE INSERT ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION slow()`)
	r := newRequest(holdPolicy())
	r.Key.Namespace = "slow"
	r.Digest = r.Key.Digest()
	began := time.Now()
	_, err := l.Claim(t.Context(), r)
	if !errors.Is(err, fallback.ErrUnavailable) || errors.Is(err, fallback.ErrUnconfirmed) {
		t.Fatalf("got %v", err)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Fatalf("took %v", took)
	}
}

// TestI47ForeignSessions: the suite passes whatever the session is set to, and
// without prepared statements, as through a pooler in transaction mode.
func TestI47ForeignSessions(t *testing.T) {
	t.Parallel()
	settings := map[string]func(*pgxpool.Config){
		"session settings": func(c *pgxpool.Config) {
			for name, value := range map[string]string{
				"default_transaction_isolation": "serializable",
				"default_transaction_read_only": "on",
				"search_path":                   "nowhere",
				"timezone":                      "Asia/Kathmandu",
				"datestyle":                     "SQL, DMY",
				"bytea_output":                  "escape",
			} {
				c.ConnConfig.RuntimeParams[name] = value
			}
		},
		"no prepared statements": func(c *pgxpool.Config) {
			c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		},
	}
	for name, edit := range settings {
		t.Run(name, func(t *testing.T) {
			url := testenv.Postgres(t).URL()
			exec(t, newPool(t, url), "CREATE SCHEMA \"odd \"\"name\"")
			pool := newPool(t, url, edit)
			schema := func(c *fallback.Config) { c.Schema = `odd "name` }
			openLedger(t, pool, schema)
			ledgertest.Run(t, func(t *testing.T) ledgertest.Harness {
				return ledgertest.Harness{Ledger: openLedger(t, pool, schema)}
			})
		})
	}
}

// TestUnnamedStatementsLeaveNothing: through a pooler each transaction may meet
// another server connection, so none may depend on an earlier one.
func TestUnnamedStatementsLeaveNothing(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL(), func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.MaxConns = 1
	})
	l := openLedger(t, pool)
	mine := mustClaim(t, l, newRequest(holdPolicy()))
	if _, err := l.Complete(t.Context(), fallback.Completion{Ref: mine}); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE name <> ''").Scan(&n); err != nil || n != 0 {
		t.Fatalf("%d prepared statements are left, %v", n, err)
	}
}

// TestDeallocatedStatements: an application that cleans its connections
// (DISCARD ALL, DEALLOCATE ALL) takes our prepared statements along.
func TestDeallocatedStatements(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	l := openLedger(t, pool, func(c *fallback.Config) { c.Listen.Off = true })
	for range 3 {
		mine := mustClaim(t, l, newRequest(holdPolicy()))
		exec(t, pool, "DISCARD ALL")
		if _, err := l.Complete(t.Context(), fallback.Completion{Ref: mine}); err != nil {
			t.Fatal(err)
		}
		exec(t, pool, "DISCARD ALL")
	}
}

// TestI47Sequence: a sequence that caches, cycles, skips or is not permanent
// is refused, everything at once and with the fix.
func TestI47Sequence(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	openLedger(t, pool)
	exec(t, pool, "ALTER SEQUENCE idempotency_fence CACHE 32 INCREMENT 2 CYCLE")
	_, err := fallback.Open(t.Context(), pool, fallback.Config{})
	if err == nil {
		t.Fatal("opened")
	}
	for _, fix := range []string{"CACHE 1", "INCREMENT 1", "NO CYCLE"} {
		if !strings.Contains(err.Error(), fix) {
			t.Errorf("%v does not name %s", err, fix)
		}
	}
	exec(t, pool, "ALTER SEQUENCE idempotency_fence CACHE 1 INCREMENT 1 NO CYCLE")
	openLedger(t, pool)
}

// TestI47RestoredDump: a ledger that was moved to another Postgres system is
// refused until an operator adopts it. Fences then go on far above, and
// take-overs rest until the longest lease granted before has ended.
func TestI47RestoredDump(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool)
	p := holdPolicy()
	p.Takeover, p.Lease, p.MaxProcessing = fallback.Retry, 20*time.Millisecond, time.Second
	lapsed := newRequest(p)
	stale := mustClaim(t, l, lapsed)
	p.Lease, p.MaxProcessing = 3*time.Second, 3*time.Second
	mustClaim(t, l, newRequest(p)) // the longest lease

	exec(t, pool, "UPDATE idempotency_meta SET system_identifier = '42'")
	pool.Reset()
	_, err := fallback.Open(t.Context(), pool, fallback.Config{})
	if err == nil || !strings.Contains(err.Error(), "fallback.Adopt") {
		t.Fatalf("got %v, want a refusal that names Adopt", err)
	}
	found, err := fallback.Check(t.Context(), pool, fallback.Config{})
	if err != nil || !mentions(found, "another Postgres system") {
		t.Fatalf("Check: %+v, %v", found, err)
	}
	// The ledger that is open refuses too, on each new connection.
	if _, err := l.Claim(t.Context(), newRequest(holdPolicy())); !errors.Is(err, fallback.ErrUnavailable) {
		t.Fatalf("Claim on a foreign system: %v", err)
	}
	if err := fallback.Adopt(t.Context(), pool, fallback.Config{}); err != nil {
		t.Fatal(err)
	}
	fresh := mustClaim(t, l, newRequest(holdPolicy()))
	if fresh.Fence < stale.Fence+1<<32 {
		t.Fatalf("fence %d after %d", fresh.Fence, stale.Fence)
	}
	next := lapsed
	next.Token = fallback.NewToken()
	eventually(t, "the stale claim lapses", func() bool { row := mustRead(t, l, lapsed.Digest); return row.Lapsed() })
	v, err := l.TakeOver(t.Context(), next, stale.Fence)
	if err != nil || v.Granted != nil {
		t.Fatalf("taken over before the longest lease ended: %+v, %v", v, err)
	}
	eventually(t, "the rest ends", func() bool {
		v, err := l.TakeOver(t.Context(), next, stale.Fence)
		if err != nil {
			t.Fatal(err)
		}
		return v.Granted != nil
	})
}

// TestFailOverIsAdopted: another timeline of the same system is adopted
// without asking, once, and told.
func TestFailOverIsAdopted(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	first := openLedger(t, pool)
	before := mustClaim(t, first, newRequest(holdPolicy()))
	exec(t, pool, "UPDATE idempotency_meta SET timeline = '000000FF'")
	pool.Reset()
	events := make(chan observe.LedgerAdopted, 100)
	observer := observe.Func(func(e observe.Event) {
		if a, ok := e.(observe.LedgerAdopted); ok {
			events <- a
		}
	})
	second := openLedger(t, pool, func(c *fallback.Config) { c.Observer = observer })
	third := openLedger(t, pool, func(c *fallback.Config) { c.Observer = observer })
	for _, l := range []*fallback.Postgres{first, second, third} {
		if after := mustClaim(t, l, newRequest(holdPolicy())); after.Fence < before.Fence+1<<32 || after.Fence > before.Fence+1<<33 {
			t.Fatalf("fence %d after %d", after.Fence, before.Fence)
		}
	}
	if len(events) != 1 {
		t.Fatalf("adopted %d times", len(events))
	}
}

// TestFailOverBehindAPooler: the server behind a client connection changes and
// the connection stays. The other server grants nothing before it is adopted:
// fences go on far above, and take-overs rest.
func TestFailOverBehindAPooler(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL(), func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.MaxConns = 1
	})
	l := openLedger(t, pool)
	brief := fallback.Policy{Lease: time.Millisecond, MaxProcessing: time.Millisecond, MaxAttempts: 5, Retention: time.Hour}
	held, retried := newRequest(brief), newRequest(brief)
	retried.Policy.Takeover = fallback.Retry
	for name, meet := range map[string]func(){
		"a claim": func() { otherServer(t, pool) },
		"a take-over": func() {
			over := mustClaim(t, l, retried)
			eventually(t, "the lease lapses", func() bool { r := mustRead(t, l, over.Digest); return r.Lapsed() })
			otherServer(t, pool)
			next := retried
			next.Token = fallback.NewToken()
			if v, err := l.TakeOver(t.Context(), next, over.Fence); err != nil || v.Granted != nil || v.Row.State != fallback.Processing {
				t.Errorf("TakeOver: %+v, %v", v, err)
			}
			wantAdopted(t, pool)
		},
		"a lapse": func() {
			over := mustClaim(t, l, held)
			eventually(t, "the lease lapses", func() bool { r := mustRead(t, l, over.Digest); return r.Lapsed() })
			otherServer(t, pool)
			if r, err := l.Lapse(t.Context(), held.Digest, over.Fence); err != nil || r.State != fallback.Processing {
				t.Errorf("Lapse: %+v, %v", r, err)
			}
			wantAdopted(t, pool)
		},
	} {
		before := mustClaim(t, l, newRequest(holdPolicy())) // and with it a lease of a minute
		meet()
		after := mustClaim(t, l, newRequest(holdPolicy()))
		if after.Fence < before.Fence+1<<32 {
			t.Errorf("%s: fence %d after %d: the other server was not noticed", name, after.Fence, before.Fence)
		}
		var rest time.Duration
		err := pool.QueryRow(t.Context(), "SELECT takeover_after - clock_timestamp() FROM idempotency_meta").Scan(&rest)
		if err != nil || rest < 30*time.Second {
			t.Errorf("%s: take-overs rest for %v, %v", name, rest, err)
		}
		exec(t, pool, "UPDATE idempotency_meta SET takeover_after = '-infinity'")
	}
}

// otherServer makes the ledger that of another server than the pool leads to.
func otherServer(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	exec(t, pool, "UPDATE idempotency_meta SET timeline = '000000AA'")
}

func wantAdopted(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var timeline string
	if err := pool.QueryRow(t.Context(), "SELECT timeline FROM idempotency_meta").Scan(&timeline); err != nil || timeline == "000000AA" {
		t.Errorf("the other server was not noticed: timeline %q, %v", timeline, err)
	}
}

// TestOpenErrors: what keeps a ledger from being opened is one clear error.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	pool := newPool(t, server.URL())
	open := func(cfg fallback.Config, words ...string) {
		t.Helper()
		l, err := fallback.Open(t.Context(), pool, cfg)
		if err == nil {
			l.Close()
			t.Fatal("opened")
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q does not mention %q", err, w)
			}
		}
	}
	if _, err := fallback.Open(t.Context(), nil, fallback.Config{}); err == nil || !strings.Contains(err.Error(), "nil") {
		t.Errorf("a nil pool: %v", err)
	}
	open(fallback.Config{}, "redfence migrate")
	open(fallback.Config{MaxBatch: -1, LockTimeout: time.Hour, MaxQueue: -1}, "MaxBatch", "LockTimeout", "MaxQueue")
	openLedger(t, pool)
	exec(t, pool, "UPDATE idempotency_meta SET version = 9, min_binary = 1")
	openLedger(t, pool) // expanded: still good for us
	exec(t, pool, "UPDATE idempotency_meta SET version = 9, min_binary = 9")
	open(fallback.Config{}, "too new", "upgrade")
	open(fallback.Config{Migrate: true}, "too new")
	exec(t, pool, "UPDATE idempotency_meta SET version = 0, min_binary = 0")
	open(fallback.Config{}, "redfence migrate")

	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Host, u.User = "127.0.0.1:1", url.UserPassword("u", "canary-secret")
	nowhere := newPool(t, u.String())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err = fallback.Open(ctx, nowhere, fallback.Config{})
	if !errors.Is(err, fallback.ErrUnavailable) || strings.Contains(err.Error(), "canary-secret") {
		t.Errorf("an unreachable Postgres: %v", err)
	}
}

// TestInDoubt: a row of a state or a record version that this binary does not
// know is never claimed, lapsed, decided or swept.
func TestInDoubt(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, brisk)
	for _, change := range []string{
		"state = 'wandering'",
		"state = 'released', version = 2",
		"state = 'completed', version = 2",
		"state = 'unknown', version = 2",
		"state = 'processing', takeover = 'maybe'",
	} {
		r := newRequest(holdPolicy())
		mine := mustClaim(t, l, r)
		if _, err := pool.Exec(t.Context(), `UPDATE idempotency_keys SET `+change+`, lease_until = now() - interval '1 day',
			released_at = now() - interval '1 day', expires_at = now() - interval '1 day', claimed_at = now() - interval '2 days'
			WHERE digest = $1`, r.Digest[:]); err != nil {
			t.Fatal(err)
		}
		again := r
		again.Token = fallback.NewToken()
		v, err := l.Claim(t.Context(), again)
		if err != nil || v.Granted != nil || v.Row.State.Known() {
			t.Errorf("%s: Claim: %+v, %+v, %v", change, v.Granted, v.Row, err)
		}
		if v, err := l.TakeOver(t.Context(), again, mine.Fence); err != nil || v.Granted != nil {
			t.Errorf("%s: TakeOver: %+v, %v", change, v, err)
		}
		if row, err := l.Lapse(t.Context(), r.Digest, mine.Fence); err != nil || row.State.Known() {
			t.Errorf("%s: Lapse: %+v, %v", change, row, err)
		}
		if _, err := l.Decide(t.Context(), fallback.Decision{Digest: r.Digest, Fence: mine.Fence, State: fallback.Released, Force: true}); !errors.Is(err, fallback.ErrRefused) {
			t.Errorf("%s: Decide: %v", change, err)
		}
		if swept, err := l.SweepOnce(t.Context(), 0); err != nil || swept.Removed != 0 {
			t.Errorf("%s: swept %+v, %v", change, swept, err)
		}
	}
}
