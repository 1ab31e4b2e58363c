package fallback_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// lockRow holds a row's lock in a session of its own until the test calls what
// it returns.
func lockRow(t testing.TB, pool *pgxpool.Pool, d fallback.Digest) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM idempotency_keys WHERE digest = $1 FOR UPDATE", d[:]); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() { tx.Rollback(context.WithoutCancel(t.Context())) })
}

// TestI32LockedRow: another session holds the row lock of one key of a batch.
// The others are served; that key is busy, and served when the lock is gone.
func TestI32LockedRow(t *testing.T) {
	t.Parallel()
	server := testenv.Postgres(t)
	lockTimeout := 200 * time.Millisecond
	l := openLedger(t, newPool(t, server.URL()), func(c *fallback.Config) { c.LockTimeout = lockTimeout })
	others := newPool(t, server.URL())

	// batch runs one call per key at the same time, that of the locked key
	// among them, and returns its error and how long the others took.
	batch := func(t *testing.T, locked fallback.Digest, keys []fallback.Digest, call func(fallback.Digest) error) (busy error, rest time.Duration) {
		t.Helper()
		unlock := lockRow(t, others, locked)
		defer unlock()
		var wg sync.WaitGroup
		var mu sync.Mutex
		began := time.Now()
		for _, d := range append(keys, locked) {
			wg.Go(func() {
				err := call(d)
				mu.Lock()
				defer mu.Unlock()
				if d == locked {
					busy = err
					return
				}
				rest = max(rest, time.Since(began))
				if err != nil {
					t.Errorf("a key that nobody has locked: %v", err)
				}
			})
		}
		wg.Wait()
		return busy, rest
	}
	// Three waits at most: a first batch, the one with the others, and its
	// remainder; the last without a locked row. Far from one per halving.
	bound := 3*lockTimeout + 2*time.Second

	t.Run("claims", func(t *testing.T) {
		r := newRequest(holdPolicy())
		mine := mustClaim(t, l, r)
		if err := l.Release(t.Context(), mine, "undone"); err != nil {
			t.Fatal(err)
		}
		requests := map[fallback.Digest]fallback.ClaimRequest{r.Digest: r}
		var keys []fallback.Digest
		for range 60 {
			q := newRequest(holdPolicy())
			requests[q.Digest] = q
			keys = append(keys, q.Digest)
		}
		claim := func(d fallback.Digest) error {
			v, err := l.Claim(t.Context(), requests[d])
			if err == nil && v.Granted == nil {
				err = errors.New("not granted")
			}
			return err
		}
		busy, rest := batch(t, r.Digest, keys, claim)
		if !errors.Is(busy, fallback.ErrBusy) {
			t.Fatalf("the locked key: %v, want ErrBusy", busy)
		}
		if rest > bound {
			t.Fatalf("the others took %v", rest)
		}
		if err := claim(r.Digest); err != nil {
			t.Fatalf("after the lock: %v", err)
		}
	})
	t.Run("completions do not wait at all", func(t *testing.T) {
		refs := make(map[fallback.Digest]fallback.Ref)
		var keys []fallback.Digest
		for range 60 {
			r := newRequest(holdPolicy())
			refs[r.Digest] = mustClaim(t, l, r)
			keys = append(keys, r.Digest)
		}
		complete := func(d fallback.Digest) error {
			_, err := l.Complete(t.Context(), fallback.Completion{Ref: refs[d], Response: []byte("ok")})
			return err
		}
		locked := keys[len(keys)/2]
		keys = append(keys[:len(keys)/2:len(keys)/2], keys[len(keys)/2+1:]...)
		busy, rest := batch(t, locked, keys, complete)
		if !errors.Is(busy, fallback.ErrBusy) {
			t.Fatalf("the locked key: %v, want ErrBusy", busy)
		}
		if rest > bound {
			t.Fatalf("the others took %v", rest)
		}
		if err := complete(locked); err != nil {
			t.Fatalf("after the lock: %v", err)
		}
	})
}

// TestI46PoisonRow: one row of a batch is rejected by the database. It errs,
// the others are served. The poison is a trigger: what people put into a row
// (a NUL in a header value, text that is not UTF-8) no longer can be one.
func TestI46PoisonRow(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool)
	poison := newRequest(holdPolicy())
	script := `CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF convert_from(NEW.id, 'UTF8') = '` + poison.Key.ID + `' AND NEW.state <> 'released' THEN
			RAISE EXCEPTION 'poison'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER poison BEFORE INSERT OR UPDATE ON idempotency_keys FOR EACH ROW EXECUTE FUNCTION poison()`
	if _, err := pool.Exec(t.Context(), script, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := l.Claim(t.Context(), poison)
			if err == nil || errors.Is(err, fallback.ErrUnavailable) || errors.Is(err, fallback.ErrUnconfirmed) {
				t.Errorf("the poisoned row: %v", err)
			}
		})
		for range 50 {
			wg.Go(func() {
				r := newRequest(holdPolicy())
				v, err := l.Claim(t.Context(), r)
				if err != nil || v.Granted == nil {
					t.Errorf("a healthy row: %+v, %v", v, err)
				}
			})
		}
		wg.Wait()
	}
}

// TestI31FencesGrow: one key is acquired and released from many sessions while
// the sweeper runs. In the order of the commits its fences only grow.
func TestI31FencesGrow(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).URL()
	var ledgers []*fallback.Postgres
	for range 6 {
		ledgers = append(ledgers, openLedger(t, newPool(t, url), func(c *fallback.Config) {
			c.Listen.Off, c.StatementTimeout, c.LockTimeout = true, 2*time.Second, time.Second
			c.Sweep = fallback.Sweep{Interval: time.Millisecond, Grace: 4 * time.Second}
		}))
	}
	r := newRequest(holdPolicy())
	var mu sync.Mutex
	var last int64
	grants := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range 24 {
		l := ledgers[i%len(ledgers)]
		wg.Go(func() {
			for ctx.Err() == nil {
				mine := r
				mine.Token = fallback.NewToken()
				v, err := l.Claim(ctx, mine)
				if err != nil || v.Granted == nil {
					continue
				}
				// While the claim is held nobody else can be here.
				mu.Lock()
				if v.Granted.Fence <= last {
					t.Errorf("fence %d after %d", v.Granted.Fence, last)
				}
				last = v.Granted.Fence
				grants++
				mu.Unlock()
				if err := l.Release(context.WithoutCancel(ctx), refOf(mine, v.Granted.Fence), "undone"); err != nil {
					t.Errorf("Release: %v", err)
				}
			}
		})
	}
	eventually(t, "enough grants to show something", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return grants >= 60 || t.Failed()
	})
	cancel()
	wg.Wait()
}

// TestReleaseByDeleteBreaksFences is why no transition deletes a row: a fence
// that is drawn for the insert branch before the conflict is seen can be
// inserted after a larger one was granted and its row deleted.
func TestReleaseByDeleteBreaksFences(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	openLedger(t, pool)
	if _, err := pool.Exec(t.Context(), "CREATE TABLE naive (digest int PRIMARY KEY, fence bigint)"); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	first, err := pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Rollback(ctx)
	// One claim draws its fence in the insert branch and stalls before it
	// inserts, as a session that waits for a lock or for the processor does.
	var drawn, granted, later int64
	if err := first.QueryRow(ctx, "SELECT nextval('idempotency_fence')").Scan(&drawn); err != nil {
		t.Fatal(err)
	}
	const claim = "INSERT INTO naive VALUES (1, nextval('idempotency_fence')) RETURNING fence"
	if err := pool.QueryRow(ctx, claim).Scan(&granted); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(ctx, "DELETE FROM naive"); err != nil { // release by DELETE
		t.Fatal(err)
	}
	if err := first.QueryRow(ctx, "INSERT INTO naive VALUES (1, $1) RETURNING fence", drawn).Scan(&later); err != nil {
		t.Fatal(err)
	}
	if later >= granted {
		t.Fatalf("fence %d after %d: the counter-example is gone, so is the reason for the rule", later, granted)
	}
}
