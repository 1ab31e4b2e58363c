package fallback_test

import (
	"testing"
	"time"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

func awaitHint(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case <-wake:
	case <-time.After(30 * time.Second):
		t.Fatal("no hint")
	}
}

// TestWakeAcrossProcesses: a hint reaches a waiter of another ledger on the
// same database, and only keys that somebody waits for cost a notification.
func TestWakeAcrossProcesses(t *testing.T) {
	t.Parallel()
	url := testenv.Postgres(t).URL()
	owner, waiter := openLedger(t, newPool(t, url)), openLedger(t, newPool(t, url))
	wakesAcross(t, owner, waiter)
}

func wakesAcross(t *testing.T, owner, waiter *fallback.Postgres) {
	t.Helper()
	d := newRequest(holdPolicy()).Digest
	// The owner has to have heard of the wish; the two listeners start on their
	// own time, so wish and wake until it works.
	eventually(t, "a hint arrives", func() bool {
		wake, stop := waiter.Watch(d)
		defer stop()
		select {
		case <-wake: // the listener has just begun
		case <-time.After(20 * time.Millisecond):
		}
		if err := owner.Wake(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wake:
			return true
		case <-time.After(20 * time.Millisecond):
			return false
		}
	})
}

// TestReconnectWakesAll: when the listener's connection breaks, hints may be
// lost: every waiter is told to re-read once it listens again.
func TestReconnectWakesAll(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool)
	listening := func() (pid int) {
		_ = pool.QueryRow(t.Context(), `SELECT pid FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'LISTEN%'`).Scan(&pid)
		return pid
	}
	eventually(t, "it listens", func() bool { return listening() != 0 })
	wake, stop := l.Watch(newRequest(holdPolicy()).Digest)
	defer stop()
	select { // the hint of the first connection may be late
	case <-wake:
	case <-time.After(100 * time.Millisecond):
	}
	exec(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	awaitHint(t, wake)
}

// TestPollOnly: in poll-only mode nothing is listened to and nothing is sent;
// waiters of the same process are woken all the same.
func TestPollOnly(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, func(c *fallback.Config) { c.Listen.Off = true })
	d := newRequest(holdPolicy()).Digest
	wake, stop := l.Watch(d)
	defer stop()
	if err := l.Wake(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	awaitHint(t, wake)
	var n int
	err := pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
		WHERE datname = current_database() AND query LIKE '%LISTEN%' AND pid <> pg_backend_pid()`).Scan(&n)
	if err != nil || n != 0 {
		t.Fatalf("%d connections listen, %v", n, err)
	}
}
