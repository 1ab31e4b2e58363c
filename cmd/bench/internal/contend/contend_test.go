package contend

import (
	"context"
	"testing"

	"github.com/redfence/redfence/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func startServers(t *testing.T) Servers {
	t.Helper()
	s := Servers{Postgres: testenv.Postgres(t).URL()}
	for _, node := range testenv.Redis(t, 5) {
		s.Redis = append(s.Redis, node.Addr())
	}
	if err := Begin(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func closing(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

func TestLocksExclude(t *testing.T) {
	s := startServers(t)
	contenders := []LockContender{
		Redsync, RedsyncFailFast, RedsyncTuned, Redislock, Rueidislock, Advisory, LeaseRow, Raw, Unguarded, Guarded,
	}
	for _, c := range contenders {
		t.Run(c.Name, func(t *testing.T) {
			var both [2]Locker
			for i := range both {
				var err error
				if both[i], err = c.Open(t.Context(), s); err != nil {
					t.Fatal(err)
				}
				closing(t, both[i])
			}
			for round := range 2 { // the second finds out whether the first gave it back
				unlock, err := both[0].Lock(t.Context(), c.Name)
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				// Some peers give a slow node up sooner than a busy machine answers;
				// an error is no grant.
				if _, ok, _ := both[1].TryLock(t.Context(), c.Name); ok {
					t.Error("the other instance was granted the name while it was held")
				}
				if err := unlock(t.Context()); err != nil {
					t.Errorf("unlock: %v", err)
				}
			}
			unlock, err := both[1].Lock(t.Context(), c.Name)
			if err != nil {
				t.Fatalf("the other instance, after the unlock: %v", err)
			}
			if err := unlock(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDoersReplay(t *testing.T) {
	s := startServers(t)
	contenders := []DoContender{Naive, NaiveDurable, LedgerOnly, RawDo, Engine, EngineNear, EngineFallback, PlainGet}
	for _, c := range contenders {
		t.Run(c.Name, func(t *testing.T) {
			doer, err := c.Open(context.Background(), s)
			if err != nil {
				t.Fatal(err)
			}
			closing(t, doer)
			runs := 0
			work := func() ([]byte, error) { runs++; return []byte("done by " + c.Name), nil }
			for i := range 3 {
				got, replayed, err := doer.Do(t.Context(), c.Name, work)
				if err != nil || string(got) != "done by "+c.Name || replayed != (i > 0) {
					t.Errorf("call %d: %q, replayed %v, %v", i, got, replayed, err)
				}
			}
			if runs != 1 {
				t.Errorf("the work ran %d times", runs)
			}
		})
	}
}
