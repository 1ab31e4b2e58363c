package fallback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"
)

// TestDigestIsFrozen: the digest is SHA-256 over length-prefixed parts, and
// stays it: rows and caches of other versions are found by it.
func TestDigestIsFrozen(t *testing.T) {
	for key, want := range map[Key]string{
		{}: "9d908ecfb6b256def8b49a7c504e6c889c4b0e41fe6ce3e01863dd7b61a20aa0",
		{Namespace: "do", Scope: "acme", ID: "tx-1"}: "a1bbbe66da340ee8b36408ea91832f5cb988879e80c9d7dda0b895083867c0e9",
	} {
		if got := key.Digest().String(); got != want {
			t.Errorf("%q: %s", key, got)
		}
	}
}

// TestDigestsDiffer: no other split of the same bytes has the same digest.
func TestDigestsDiffer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[ab\x00]{0,3}`)
		draw := func(n string) Key {
			return Key{part.Draw(t, n+" namespace"), part.Draw(t, n+" scope"), part.Draw(t, n+" id")}
		}
		a, b := draw("a"), draw("b")
		if (a == b) != (a.Digest() == b.Digest()) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

// FuzzPlainText: whatever people put into a reason, every store takes it.
func FuzzPlainText(f *testing.F) {
	for _, s := range []string{"", "ok", "a\x00b", "\xff\xfe", strings.Repeat("é", 300), strings.Repeat("x", 501)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := plainText(s)
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > maxText {
			t.Fatalf("%q", got)
		}
		if len(s) <= maxText && utf8.ValidString(s) && !strings.Contains(s, "\x00") && got != s {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

func TestHowFar(t *testing.T) {
	pg := func(severity, code string) error {
		return &pgconn.PgError{SeverityUnlocalized: severity, Code: code}
	}
	for name, tt := range map[string]struct {
		err    error
		far    attempt
		retry  bool
		unfit  bool
		sentAs error // what callers match; nil: the row's own fault
	}{
		"serialization":    {afterSend(pg("ERROR", "40001")), aborted, true, false, ErrUnavailable},
		"deadlock":         {afterSend(pg("ERROR", "40P01")), aborted, true, false, ErrUnavailable},
		"lock timeout":     {afterSend(pg("ERROR", "55P03")), aborted, true, false, ErrBusy},
		"statement":        {afterSend(pg("ERROR", "57014")), aborted, true, false, ErrUnavailable},
		"read only":        {afterSend(pg("ERROR", "25006")), aborted, true, true, ErrUnavailable},
		"shutdown":         {afterSend(pg("FATAL", "57P01")), inDoubt, true, true, ErrUnavailable},
		"crash":            {afterSend(pg("PANIC", "XX000")), inDoubt, false, false, ErrUnavailable},
		"disk full":        {afterSend(pg("ERROR", "53100")), aborted, false, false, ErrUnavailable},
		"no such table":    {afterSend(pg("ERROR", "42P01")), aborted, false, false, ErrUnavailable},
		"damaged row":      {afterSend(pg("ERROR", "XX001")), aborted, false, false, ErrUnavailable},
		"bad text":         {afterSend(pg("ERROR", "22021")), aborted, false, false, nil},
		"check violation":  {afterSend(pg("ERROR", "23514")), aborted, false, false, nil},
		"raised":           {afterSend(pg("ERROR", "P0001")), aborted, false, false, nil},
		"connection lost":  {afterSend(io.ErrUnexpectedEOF), inDoubt, false, false, ErrUnavailable},
		"time-out":         {afterSend(context.DeadlineExceeded), inDoubt, false, false, ErrUnavailable},
		"not sent":         {&attemptError{notSent, errors.New("refused")}, notSent, false, false, ErrUnavailable},
		"cannot encode":    {&attemptError{notSent, &encodeError{errors.New("too large")}}, notSent, false, false, nil},
		"pool":             {&attemptError{notSent, fmt.Errorf("%w: pool", ErrOverloaded)}, notSent, false, false, ErrOverloaded},
		"unconfirmed":      {&UnconfirmedError{Err: io.EOF}, inDoubt, false, false, ErrUnconfirmed},
		"unknown, wrapped": {fmt.Errorf("x: %w", afterSend(pg("ERROR", "40001"))), aborted, true, false, ErrUnavailable},
	} {
		if got := howFar(tt.err); got != tt.far {
			t.Errorf("%s: how far %v, want %v", name, got, tt.far)
		}
		if got := retryable(tt.err); got != tt.retry {
			t.Errorf("%s: retryable %v", name, got)
		}
		if got := unfit(tt.err); got != tt.unfit {
			t.Errorf("%s: unfit %v", name, got)
		}
		verdict := verdictOf(tt.err)
		for _, s := range []error{ErrUnavailable, ErrBusy, ErrOverloaded, ErrUnconfirmed, ErrRefused} {
			if got := errors.Is(verdict, s); got != (s == tt.sentAs) {
				t.Errorf("%s: %v matches %v: %v", name, verdict, s, got)
			}
		}
	}
	if verdictOf(nil) != nil {
		t.Error("nil became an error")
	}
}

// TestClockEstimate: an estimate is never off by more than its margin, however
// long the reading took, and a late reading does not replace a later one.
func TestClockEstimate(t *testing.T) {
	var c clock
	if _, _, ok := c.now(); ok {
		t.Fatal("an estimate without a reading")
	}
	ahead := time.Now().Add(time.Hour) // the ledger's clock, by ours
	start := boot()
	c.observe(ahead, start)
	now, margin, ok := c.now()
	truth := ahead.Add(boot() - start)
	if !ok || now.Sub(truth).Abs() > margin || margin < clockMargin {
		t.Fatalf("%v ± %v, truth %v", now, margin, truth)
	}
	c.observe(ahead.Add(-time.Hour), start-time.Minute) // sent earlier, answered later
	if again, _, _ := c.now(); again.Before(now) {
		t.Fatalf("an older reading replaced a newer one: %v", again)
	}
	slow := boot() - 10*time.Second
	c = clock{}
	c.observe(ahead, slow)
	if _, margin, _ := c.now(); margin < 11*time.Second {
		t.Fatalf("a round trip of 10 s leaves a margin of %v", margin)
	}
}

func TestGrantShortensByDrift(t *testing.T) {
	now := time.Now()
	r := Record{Now: now, ClaimedAt: now, LeaseUntil: now.Add(10 * time.Second), Policy: Policy{MaxProcessing: time.Minute}}
	g := r.grant(now)
	if want := now.Add(10*time.Second - 102*time.Millisecond); !g.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", g.Deadline, want)
	}
	if want := now.Add(time.Minute - 602*time.Millisecond); !g.Cap.Equal(want) {
		t.Errorf("cap %v, want %v", g.Cap, want)
	}
}

func TestStatesKeepTheirNames(t *testing.T) {
	for state, name := range map[State]string{
		Absent: "absent", Processing: "processing", Completed: "completed", Unknown: "unknown",
		Released: "released", Streaming: "streaming", Tombstone: "tombstone",
	} {
		if state.String() != name || stateOf([]byte(name)) != state || !state.Known() {
			t.Errorf("%d is %q", state, state)
		}
	}
	if stateOf([]byte("tomorrow's")) != InDoubt || InDoubt.Known() || InDoubt.String() != "in doubt" {
		t.Error("a state of another version is not in doubt")
	}
}

// TestMigrationsAreInOrder: versions count up, and no step asks for a binary
// that is newer than itself.
func TestMigrationsAreInOrder(t *testing.T) {
	steps := Migrations("")
	for i, m := range steps {
		if m.Version != i+1 || m.MinBinary > m.Version || m.SQL == "" || strings.Contains(m.SQL, "{schema}") {
			t.Errorf("%+v", m)
		}
	}
	if last := steps[len(steps)-1]; last.Version != SchemaVersion {
		t.Errorf("the last step is %d, the binary knows %d", last.Version, SchemaVersion)
	}
}

// TestStatementsAreWhole: every file of sql/ fits its schema, and nothing that
// was to be replaced is left.
func TestStatementsAreWhole(t *testing.T) {
	files, err := sqlFiles.ReadDir("sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		raw, err := sqlFiles.ReadFile("sql/" + f.Name())
		if err != nil || !strings.HasPrefix(string(raw), "-- ") {
			t.Errorf("%s has no header, %v", f.Name(), err)
		}
		s := load(strings.TrimSuffix(f.Name(), ".sql"), `a "b"`, "", "{role}", "", "{here}", "true")
		text := s.text
		if text == "" || strings.ContainsAny(text, "{}") || strings.Contains(text, "--") {
			t.Errorf("%s: %s", f.Name(), text)
		}
		if strings.Contains(text, "idempotency_") && !strings.Contains(text, `"a ""b"""`) && !strings.Contains(text, "$1::text") && f.Name() != "sequence.sql" {
			t.Errorf("%s does not name its schema", f.Name())
		}
	}
}
