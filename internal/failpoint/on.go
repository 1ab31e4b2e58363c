//go:build chaos

// Package failpoint stops, delays or breaks the engine at named places. It
// exists only in builds with the tag chaos.
//
// REDFENCE_FAILPOINTS holds rules separated by commas, each
// name=action[*limit]: the first limit passes through the place do the action,
// later ones nothing; without a limit all do. The actions are
//
//	pause:2s          wait that long, or until the context ends
//	pause-until:FILE  wait until FILE exists, or until the context ends
//	panic             panic
//	exit              end the process with code 66, as a crash would
//	error             return ErrInjected
//
// REDFENCE_FAILPOINT_LOG names a file that gets a line per action done, so
// that a scenario can prove that its failpoint was hit. REDFENCE_MUTANT names
// the one rule that is broken on purpose.
package failpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	rulesVariable  = "REDFENCE_FAILPOINTS"
	logVariable    = "REDFENCE_FAILPOINT_LOG"
	mutantVariable = "REDFENCE_MUTANT"
)

// exitCode is how a process ends at a failpoint with the action exit.
const exitCode = 66

// ErrInjected is what a failpoint with the action error returns.
var ErrInjected = errors.New("failpoint: injected error")

// rule is what happens at one place.
type rule struct {
	act  func(ctx context.Context, name string) error
	left atomic.Int64
}

// rules are read once; a mistake ends the process, because a scenario that
// silently tests nothing is worse.
var rules = sync.OnceValue(func() map[string]*rule {
	parsed, err := parse(os.Getenv(rulesVariable))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitCode)
	}
	return parsed
})

var mutant = sync.OnceValue(func() string { return os.Getenv(mutantVariable) })

// Mutant reports whether the named rule is broken on purpose.
func Mutant(name string) bool { return mutant() == name }

// Hit does what the environment asks for at this point.
func Hit(ctx context.Context, name string) error {
	r := rules()[name]
	if r == nil || r.left.Add(-1) < 0 {
		return nil
	}
	if err := note(name); err != nil {
		return err
	}
	return r.act(ctx, name)
}

func parse(text string) (map[string]*rule, error) {
	parsed := map[string]*rule{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		name, action, ok := strings.Cut(item, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("failpoint: %q: want name=action", item)
		}
		r, err := parseAction(action)
		if err != nil {
			return nil, fmt.Errorf("failpoint: %q: %w", item, err)
		}
		parsed[name] = r
	}
	return parsed, nil
}

func parseAction(text string) (*rule, error) {
	text, limit, limited := strings.Cut(text, "*")
	r := &rule{}
	r.left.Store(1 << 62)
	if limited {
		n, err := strconv.ParseInt(limit, 10, 32)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("limit %q is no positive number", limit)
		}
		r.left.Store(n)
	}
	verb, argument, _ := strings.Cut(text, ":")
	switch verb {
	case "pause":
		d, err := time.ParseDuration(argument)
		if err != nil {
			return nil, err
		}
		r.act = func(ctx context.Context, _ string) error { return pause(ctx, d) }
	case "pause-until":
		if argument == "" {
			return nil, errors.New("pause-until needs a file")
		}
		r.act = func(ctx context.Context, _ string) error { return pauseUntil(ctx, argument) }
	case "panic":
		r.act = func(_ context.Context, name string) error { panic("failpoint: " + name) }
	case "exit":
		r.act = func(context.Context, string) error { os.Exit(exitCode); return nil }
	case "error":
		r.act = func(_ context.Context, name string) error { return fmt.Errorf("%w at %s", ErrInjected, name) }
	default:
		return nil, fmt.Errorf("unknown action %q", verb)
	}
	return r, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func pauseUntil(ctx context.Context, file string) error {
	for {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

var logMu sync.Mutex

// note proves the hit before it takes effect.
func note(name string) error {
	path := os.Getenv(logVariable)
	if path == "" {
		return nil
	}
	logMu.Lock()
	defer logMu.Unlock()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("failpoint: %w", err)
	}
	_, err = fmt.Fprintln(file, name)
	return errors.Join(err, file.Close())
}
