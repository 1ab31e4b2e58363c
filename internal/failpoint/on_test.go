//go:build chaos

package failpoint

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// use installs rules for one test.
func use(t *testing.T, text string) {
	t.Helper()
	parsed, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	before := rules
	rules = func() map[string]*rule { return parsed }
	t.Cleanup(func() { rules = before })
}

func TestErrorIsReturnedAsOftenAsAsked(t *testing.T) {
	log := filepath.Join(t.TempDir(), "hits")
	t.Setenv(logVariable, log)
	use(t, "before-claim=error*2")
	var got []bool
	for range 3 {
		got = append(got, errors.Is(Hit(t.Context(), "before-claim"), ErrInjected))
	}
	if got[0] != true || got[1] != true || got[2] != false {
		t.Errorf("errors at three passes: %v, want two", got)
	}
	if err := Hit(t.Context(), "after-claim"); err != nil {
		t.Errorf("a place without a rule: %v", err)
	}
	if text, _ := os.ReadFile(log); string(text) != "before-claim\nbefore-claim\n" {
		t.Errorf("the log says %q", text)
	}
}

func TestPauseTakesItsTimeOrEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		use(t, "a=pause:3s")
		began := time.Now()
		if err := Hit(t.Context(), "a"); err != nil || time.Since(began) != 3*time.Second {
			t.Errorf("Hit: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Hit(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Hit in a context that ends: %v", err)
		}
	})
}

func TestPauseUntilWaitsForTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	use(t, "a=pause-until:"+file)
	passed := make(chan error)
	go func() { passed <- Hit(t.Context(), "a") }()
	select {
	case err := <-passed:
		t.Fatalf("passed without the file: %v", err)
	case <-time.After(30 * time.Millisecond):
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; err != nil {
		t.Error(err)
	}
}

func TestPanicPanics(t *testing.T) {
	use(t, "a=panic")
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "a") {
			t.Errorf("recovered %q", got)
		}
	}()
	_ = Hit(t.Context(), "a")
	t.Error("no panic")
}

func TestMistakesAreRefused(t *testing.T) {
	for _, text := range []string{"a", "=error", "a=sleep", "a=pause", "a=pause:x", "a=pause-until", "a=error*0", "a=error*x"} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("parse(%q): %v", text, err)
		}
	}
}
