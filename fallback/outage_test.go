package fallback_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestI24PostgresKilled: the postmaster is killed under load and comes back on
// the same ledger, without a restart of ours. No acknowledged completion is
// lost, new keys are refused meanwhile and served afterwards.
func TestI24PostgresKilled(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	l := openLedger(t, newPool(t, server.URL()), brisk)
	load := startClaims(t, l)
	for round := range 2 {
		load.turn()
		eventually(t, "keys are served", func() bool { return load.count() > 50 })
		was := load.refusals()
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "keys are refused", func() bool { return load.refusals() > was+10 })
		if err := server.Restart(); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	load.turn()
	eventually(t, "keys are served again", func() bool { return load.count() > 50 })
	load.stop()
	load.check(t, l)
}

// TestPostgresSilent: the server hangs with its connections open. Calls end
// within their bounds; a claim that was sent is unconfirmed; when the server
// goes on, so does the ledger.
func TestPostgresSilent(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	l := openLedger(t, newPool(t, server.URL()), brisk)
	mustClaim(t, l, newRequest(holdPolicy()))
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err := l.Claim(t.Context(), newRequest(holdPolicy()))
	if !errors.Is(err, fallback.ErrUnconfirmed) {
		t.Errorf("a claim that a silent server got: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.Read(short, fallback.Digest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a read whose caller gives up: %v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %v", took)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ledger goes on", func() bool {
		v, err := l.Claim(t.Context(), newRequest(holdPolicy()))
		return err == nil && v.Granted != nil
	})
}

// TestI25PoolExhausted: the application holds every connection of the pool.
// That is overload of this process, and nothing is sent.
func TestI25PoolExhausted(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL(), func(c *pgxpool.Config) { c.MaxConns = 2 })
	l := openLedger(t, pool, func(c *fallback.Config) {
		c.AcquireTimeout, c.Listen.Off = 50*time.Millisecond, true
	})
	var held []*pgxpool.Conn
	for range 2 {
		c, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	r := newRequest(holdPolicy())
	_, claimErr := l.Claim(t.Context(), r)
	_, takeErr := l.TakeOver(t.Context(), r, 1)
	_, readErr := l.Read(t.Context(), r.Digest)
	for _, err := range []error{claimErr, takeErr, readErr} {
		if !errors.Is(err, fallback.ErrOverloaded) || errors.Is(err, fallback.ErrUnavailable) ||
			errors.Is(err, fallback.ErrUnconfirmed) || !strings.Contains(err.Error(), "pool (2)") {
			t.Errorf("got %v, want ErrOverloaded that names the pool", err)
		}
	}
	for _, c := range held {
		c.Release()
	}
	mustClaim(t, l, r)
}

// TestQueueBounded: calls beyond MaxQueue are refused at once.
func TestQueueBounded(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL(), func(c *pgxpool.Config) { c.MaxConns = 1 })
	l := openLedger(t, pool, func(c *fallback.Config) { c.MaxQueue, c.Listen.Off = 4, true })
	busy, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	overloaded := 0
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := l.Claim(t.Context(), newRequest(holdPolicy()))
			if errors.Is(err, fallback.ErrOverloaded) {
				mu.Lock()
				defer mu.Unlock()
				overloaded++
			}
		})
	}
	eventually(t, "some are refused", func() bool { mu.Lock(); defer mu.Unlock(); return overloaded >= 15 })
	busy.Release()
	wg.Wait()
	mustClaim(t, l, newRequest(holdPolicy()))
}
