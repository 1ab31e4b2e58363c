package fallback_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestSeenIsNotDurable: a synchronous standby does not answer. The client gives
// up, the request to cancel that its driver sends ends the wait of COMMIT, and
// the row is seen here while no standby has it. No verdict is taken from it,
// however often it is asked for, until a standby answers.
func TestSeenIsNotDurable(t *testing.T) {
	t.Parallel()
	server, err := testenv.StartPostgres(t.Context(), testenv.PostgresOptions{NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	l := openLedger(t, newPool(t, server.URL()), brisk)
	ended, buried, abandoned := newRequest(holdPolicy()), newRequest(holdPolicy()), newRequest(holdPolicy())
	complete := fallback.Completion{Ref: mustClaim(t, l, ended), Response: []byte("ok")}
	burial := fallback.Burial{Ref: mustClaim(t, l, buried)}
	panicked := mustClaim(t, l, abandoned)
	standby := newStandbySetting(t, server.URL())
	standby("gone")

	r := newRequest(holdPolicy())
	if _, err := l.Claim(t.Context(), r); !errors.Is(err, fallback.ErrUnconfirmed) {
		t.Fatalf("no standby has confirmed the claim: %v", err)
	}
	calls := map[string]func() error{
		"re-read of the claim": func() error {
			row, err := l.Read(t.Context(), r.Digest)
			if err == nil && row.Token != r.Token {
				t.Errorf("the re-read shows %+v", row)
			}
			return err
		},
		"Confirm":  func() error { _, err := l.Confirm(t.Context(), r.Digest); return err },
		"Complete": func() error { _, err := l.Complete(t.Context(), complete); return err },
		"Bury":     func() error { _, err := l.Bury(t.Context(), burial); return err },
		"Abandon":  func() error { return l.Abandon(t.Context(), panicked, "panic") },
	}
	var wg sync.WaitGroup
	for what, call := range calls {
		wg.Go(func() {
			for range 2 { // the second send meets the row that the first has left
				if call() == nil {
					t.Errorf("%s is confirmed, and no standby has it", what)
				}
			}
		})
	}
	wg.Wait()
	if seen := mustRead(t, l, ended.Digest); seen.State != fallback.Completed {
		t.Errorf("the completion is not seen: the test shows nothing (%v)", seen.State)
	}
	standby("")
	for what, call := range calls {
		eventually(t, what+" is confirmed", func() bool { return call() == nil })
	}
}

// newStandbySetting returns what sets synchronous_standby_names. It is reset
// after the test, before ledgers close.
func newStandbySetting(t *testing.T, url string) func(names string) {
	t.Helper()
	set := func(names string) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close(ctx)
		for _, s := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'", "SELECT pg_reload_conf()"} {
			if _, err := c.Exec(ctx, s); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() { set("") })
	return func(names string) {
		set(names)
		c, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.WithoutCancel(t.Context()))
		eventually(t, "the setting is in force", func() bool {
			var now string
			err := c.QueryRow(t.Context(), "SHOW synchronous_standby_names").Scan(&now)
			return err == nil && now == names
		})
	}
}
