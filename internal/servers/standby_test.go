package servers

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestStandbyIsPromoted: a standby follows its primary, takes no writes, and
// takes them once it is promoted, with all that the primary had. The old
// primary comes back as what it was.
func TestStandbyIsPromoted(t *testing.T) {
	p := newPostgres(t)
	s, err := p.StartStandby(t.Context())
	if errors.Is(err, ErrNotInstalled) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	must(t, p.Exec(t.Context(), "CREATE TABLE t AS SELECT 7 AS n"))
	for end := time.Now().Add(20 * time.Second); s.Exec(t.Context(), "SELECT n FROM t") != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the standby does not follow")
		}
	}
	if err := s.Exec(t.Context(), "INSERT INTO t VALUES (8)"); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a write on the standby: %v", err)
	}
	must(t, p.Kill())
	must(t, s.Promote(t.Context()))
	must(t, s.Exec(t.Context(), "INSERT INTO t VALUES (8)"))
	if err := s.Promote(t.Context()); err == nil {
		t.Error("a primary was promoted")
	}
	must(t, p.Restart())
	must(t, p.Exec(t.Context(), "INSERT INTO t VALUES (9)"))
}
