package fallback_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestStandby: a standby is refused, by a ledger that is opened on it and by
// one that was open before. When it has been promoted, on a new timeline, the
// open ledger adopts it and goes on, with all that was acknowledged.
func TestStandby(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	pool := newPool(t, server.URL())
	l := openLedger(t, pool, brisk)
	r := newRequest(holdPolicy())
	before := mustClaim(t, l, r)
	var folder string
	if err := pool.QueryRow(t.Context(), "SHOW data_directory").Scan(&folder); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "CHECKPOINT")
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	signal := filepath.Join(folder, "standby.signal")
	if err := os.WriteFile(signal, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(signal, 0o666); err != nil { // the server's user removes it
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the open ledger refuses the standby", func() bool {
		_, err := l.Claim(t.Context(), newRequest(holdPolicy()))
		return errors.Is(err, fallback.ErrUnavailable) && strings.Contains(err.Error(), "target_session_attrs")
	})
	if _, err := fallback.Open(t.Context(), pool, fallback.Config{}); err == nil || !strings.Contains(err.Error(), "standby") {
		t.Fatalf("opened on a standby: %v", err)
	}
	if found, err := fallback.Check(t.Context(), pool, fallback.Config{}); err != nil || !mentions(found, "standby") {
		t.Fatalf("Check: %+v, %v", found, err)
	}
	exec(t, pool, "SELECT pg_promote()")
	var after fallback.Ref
	eventually(t, "the ledger goes on after the promotion", func() bool {
		next := newRequest(holdPolicy())
		v, err := l.Claim(t.Context(), next)
		if err != nil || v.Granted == nil {
			return false
		}
		after = refOf(next, v.Granted.Fence)
		return true
	})
	if after.Fence < before.Fence+1<<32 {
		t.Errorf("fence %d after %d: the new timeline was not noticed", after.Fence, before.Fence)
	}
	if _, err := l.Complete(t.Context(), fallback.Completion{Ref: before, Response: []byte("kept")}); err != nil {
		t.Errorf("a claim of the old timeline: %v", err)
	}
}
