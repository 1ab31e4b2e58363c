package lock

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/internal/node"
	"github.com/redfence/redfence/internal/testenv"
)

// scriptBench is one server for scripts.
type scriptBench struct {
	t      *testing.T
	client *redis.Client
}

func newScriptBench(t *testing.T) scriptBench {
	return scriptBench{t, testenv.Redis(t, 1)[0].Client()}
}

// run runs a script.
func (b scriptBench) run(s *node.Script, keys []string, argv ...any) any {
	b.t.Helper()
	v, err := b.client.Eval(b.t.Context(), s.Source(), keys, argv...).Result()
	if err != nil {
		b.t.Fatalf("%s: %v", s.Name, err)
	}
	return v
}

func (b scriptBench) expect(want any, s *node.Script, keys []string, argv ...any) {
	b.t.Helper()
	if got := b.run(s, keys, argv...); !reflect.DeepEqual(got, want) {
		b.t.Errorf("%s %v %.60v: got %v, want %v", s.Name, keys, argv, got, want)
	}
}

func (b scriptBench) ttl(key string, low, high time.Duration) {
	b.t.Helper()
	got, err := b.client.PTTL(b.t.Context(), key).Result()
	must(b.t, err)
	if got < low || got > high {
		b.t.Errorf("TTL of %s: %v, want %v to %v", key, got, low, high)
	}
}

func (b scriptBench) set(key, value string) {
	must(b.t, b.client.Set(b.t.Context(), key, value, 0).Err())
}

func (b scriptBench) get(key string) string {
	v, _ := b.client.Get(b.t.Context(), key).Result() // missing: empty
	return v
}

var (
	tokenA = strings.Repeat("a", tokenSize)
	tokenB = strings.Repeat("b", tokenSize)
	lockK  = []string{"l"}
)

func TestScriptAcquire(t *testing.T) {
	b := newScriptBench(t)
	b.expect("0", acquireScript, lockK, tokenA+" me", 60_000)
	b.ttl("l", 59*time.Second, time.Minute)
	b.expect("0", acquireScript, lockK, tokenA+" me", 90_000) // the same command again
	b.ttl("l", 89*time.Second, 90*time.Second)
	taken := b.run(acquireScript, lockK, tokenB+" you", 1000).([]any)
	if taken[0] != tokenA+" me" || taken[1].(int64) < 89_000 {
		t.Errorf("taken: %v", taken)
	}
	b.ttl("l", 89*time.Second, 90*time.Second)
}

func TestScriptRelease(t *testing.T) {
	b := newScriptBench(t)
	sub := b.client.Subscribe(t.Context(), "c")
	defer sub.Close()
	_, err := sub.Receive(t.Context())
	must(t, err)
	keys := []string{"l", "asked"}
	b.expect(int64(0), askScript, keys, "c", 60_000) // there is no such lock
	b.ttl("asked", 59*time.Second, time.Minute)
	b.expect(replyMissing, releaseScript, keys, tokenA)
	b.set("l", tokenA+" me 7")
	b.expect(replyOther, releaseScript, keys, tokenB)
	b.expect(int64(1), askScript, keys, "c", 60_000) // twice: it is told once
	b.expect(replyDone, releaseScript, keys, tokenA)
	b.expect(replyMissing, releaseScript, keys, tokenA)
	m, err := sub.ReceiveMessage(within(t, 5*time.Second))
	must(t, err)
	if m.Payload != tokenA+"l" {
		t.Errorf("told of %q", m.Payload)
	}
	b.set("l", tokenA+" me")
	b.expect(replyDone, releaseScript, keys, tokenA) // nobody has asked since
	b.set("l", tokenA+" me")
	b.expect(int64(1), askScript, keys, "c", 60_000)
	b.expect(replyDone, releaseScript, lockK, tokenA) // tells nobody
	if m, err := sub.ReceiveTimeout(t.Context(), 50*time.Millisecond); err == nil {
		t.Errorf("one message too many: %v", m)
	}
}

func TestScriptExtendAndSeed(t *testing.T) {
	b := newScriptBench(t)
	b.expect(replyMissing, extendScript, lockK, tokenA+" me 7", 60_000)
	if b.get("l") != "" {
		t.Error("an extension made a lock")
	}
	b.expect(replyDone, seedScript, lockK, tokenA+" me 7", 30_000)
	b.ttl("l", 29*time.Second, 30*time.Second)
	b.expect(replyDone, extendScript, lockK, tokenA+" me 8", 60_000)
	b.ttl("l", 59*time.Second, time.Minute)
	if v := b.get("l"); v != tokenA+" me 8" {
		t.Errorf("value %q", v)
	}
	b.expect(replyDone, seedScript, lockK, tokenA+" me 8", 90_000)
	b.ttl("l", 89*time.Second, 90*time.Second)
	b.expect(replyOther, extendScript, lockK, tokenB+" you", 1000)
	b.expect(replyOther, seedScript, lockK, tokenB+" you", 1000)
	b.ttl("l", 89*time.Second, 90*time.Second)
}

func TestScriptInspect(t *testing.T) {
	b := newScriptBench(t)
	b.expect([]any{}, inspectScript, lockK)
	b.run(acquireScript, lockK, tokenA+" me", 60_000)
	if got := b.run(inspectScript, lockK).([]any); got[0] != tokenA+" me" || got[1].(int64) < 59_000 {
		t.Errorf("%v", got)
	}
}

var guardK = []string{markerKey, counterKey}

func TestScriptAcquireGuarded(t *testing.T) {
	b := newScriptBench(t)
	keys := []string{"l", markerKey, counterKey}
	const marker = "ok run1 2000 nonce1"
	b.expect([]any{}, acquireGuardedScript, keys, tokenA+" me", 60_000, marker, 0)
	b.set(markerKey, marker)
	b.expect([]any{}, acquireGuardedScript, keys, tokenA+" me", 60_000, "ok run1 2000 nonce0", 0)
	if b.get("l") != "" || b.get(counterKey) != "" {
		t.Error("a node that does not vote was changed")
	}
	b.expect(int64(1), acquireGuardedScript, keys, tokenA+" me", 60_000, marker, 0)
	b.expect(int64(2), acquireGuardedScript, keys, tokenA+" me", 60_000, marker, 1) // the same again
	taken := b.run(acquireGuardedScript, keys, tokenB+" you", 1000, marker, 100).([]any)
	if len(taken) != 2 || taken[0] != tokenA+" me" || b.get(counterKey) != "2" {
		t.Errorf("taken: %v, counter %s", taken, b.get(counterKey))
	}
	must(t, b.client.Del(t.Context(), "l").Err())
	b.expect(int64(50), acquireGuardedScript, keys, tokenB+" you", 1000, marker, 50) // moves up
	b.expect(int64(51), acquireGuardedScript, keys, tokenB+" you", 1000, marker, 50)
	b.set(counterKey, "9007199254740993") // 2^53 + 1: no double has it
	b.expect("9007199254740994", acquireGuardedScript, keys, tokenB+" you", 1000, marker, 50)
	b.set(counterKey, "9223372036854775806")
	b.expect("9223372036854775807", acquireGuardedScript, keys, tokenB+" you", 1000, marker, 50)
}

func TestScriptStandingAndRejoin(t *testing.T) {
	b := newScriptBench(t)
	const max = 200
	marker := func(run, nonce string) string { return fmt.Sprintf("ok %s %d %s", run, max, nonce) }
	b.set(counterKey, "7")
	first := b.run(standingScript, guardK, "run1", max).([]any) // no marker: the wait begins
	if first[0] != "wait" || first[1] != strconv.Itoa(max) || first[2] != "7" {
		t.Errorf("without marker: %v", first)
	}
	b.expect(replyMissing, rejoinScript, guardK, "run1", max, marker("run1", "n1"), "9") // too early
	eventually(t, 5*time.Second, func() error {
		if s := b.run(standingScript, guardK, "run1", max).([]any); s[0] != "wait" || s[1] != "0" {
			return fmt.Errorf("%v", s)
		}
		return nil
	})
	b.expect(replyMissing, rejoinScript, guardK, "run2", max, marker("run2", "n1"), "9") // another server
	b.expect(replyDone, rejoinScript, guardK, "run1", max, marker("run1", "n1"), "9")
	b.expect([]any{"ok", marker("run1", "n1"), "9"}, standingScript, guardK, "run1", max)
	b.expect(replyDone, rejoinScript, guardK, "run1", max, marker("run1", "n2"), "99") // twice
	b.expect([]any{"ok", marker("run1", "n1"), "9"}, standingScript, guardK, "run1", max)
	b.expect([]any{"max", strconv.Itoa(max), "9"}, standingScript, guardK, "run1", 2*max)
	if s := b.run(standingScript, guardK, "run2", max).([]any); s[0] != "wait" || s[1] != strconv.Itoa(max) {
		t.Errorf("after a restart that kept the data: %v", s)
	}
	b.set(markerKey, fmt.Sprintf("wait run2 %d 99999999999999", max)) // a clock that was stepped back
	if s := b.run(standingScript, guardK, "run2", max).([]any); s[1] != strconv.Itoa(max) {
		t.Errorf("a wait from the future: %v", s)
	}
	b.set(markerKey, "garbage")
	if s := b.run(standingScript, guardK, "run2", max).([]any); s[0] != "wait" {
		t.Errorf("a marker that is none: %v", s)
	}
}

func TestScriptRaise(t *testing.T) {
	b := newScriptBench(t)
	b.expect([]any{}, raiseScript, guardK, "m", "7")
	b.set(markerKey, "m")
	b.expect("7", raiseScript, guardK, "m", "7")
	b.expect("7", raiseScript, guardK, "m", "6")
	b.expect("10", raiseScript, guardK, "m", "10") // not as text
	b.expect("9007199254740993", raiseScript, guardK, "m", "9007199254740993")
	b.expect("9007199254740994", raiseScript, guardK, "m", "9007199254740994") // equal as doubles
	b.expect("9007199254740994", raiseScript, guardK, "m", "9007199254740993")
}

func TestScriptBegin(t *testing.T) {
	b := newScriptBench(t)
	b.expect(replyDone, beginScript, []string{markerKey}, "m")
	b.expect(replyMissing, beginScript, []string{markerKey}, "n")
	if b.get(markerKey) != "m" {
		t.Errorf("marker %q", b.get(markerKey))
	}
}

func TestScriptLine(t *testing.T) {
	b := newScriptBench(t)
	keys := []string{"w", "v"}
	b.expect(int64(0), lineUpScript, keys, "z", 10_000)
	eventually(t, time.Second, func() error { // places are by the millisecond
		if b.run(lineUpScript, keys, "a", 10_000) == int64(1) {
			return nil
		}
		b.run(leaveLineScript, keys, "a")
		return fmt.Errorf("the newcomer is first")
	})
	b.expect(int64(0), lineUpScript, keys, "z", 10_000)
	b.expect(int64(1), leaveLineScript, keys, "z")
	b.expect(int64(0), leaveLineScript, keys, "z")
	b.expect(int64(0), lineUpScript, keys, "a", 10_000)
	time.Sleep(time.Second)
	b.expect(int64(0), lineUpScript, keys, "b", 900) // the other has not come again
	b.ttl("w", 0, 1800*time.Millisecond)
}

// Every script has a header that names what it takes and returns, and touches
// keys of one slot only unless it is a guarded one.
func TestScriptsAreDocumented(t *testing.T) {
	for _, s := range append(guardedScripts(), acquireScript, beginScript, inspectScript, lineUpScript, leaveLineScript) {
		header, _, _ := strings.Cut(s.Source(), "\nredis")
		for _, want := range []string{"-- KEYS[1]", "-- Returns"} {
			if !strings.HasPrefix(s.Source(), "-- ") || !strings.Contains(header, want) {
				t.Errorf("%s: no %q in its header", s.Name, want)
			}
		}
	}
}
