package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// childVariable makes the one test that waits do so.
const childVariable = "REDFENCE_TESTENV_TEST_CHILD"

func TestMain(m *testing.M) { Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRedisGivesServersOfTheTestsOwn(t *testing.T) {
	nodes := Redis(t, 3)
	seen := map[string]bool{}
	for _, node := range nodes {
		if n := node.Client().DBSize(t.Context()).Val(); n != 0 {
			t.Errorf("%s holds %d keys", node.Addr(), n)
		}
		options, err := redis.ParseURL(node.URL())
		must(t, err)
		seen[options.Addr] = true
	}
	if len(seen) != 3 {
		t.Errorf("three servers at %v", seen)
	}
	must(t, nodes[0].Kill())
	must(t, nodes[1].Client().Ping(t.Context()).Err())
	must(t, nodes[0].Restart())
	must(t, nodes[0].Client().Ping(t.Context()).Err())
}

func TestEachPostgresIsADatabaseOfItsOwn(t *testing.T) {
	one, two := Postgres(t), Postgres(t)
	must(t, execute(one.URL(), "CREATE TABLE only_here (n int)"))
	if err := execute(two.URL(), "SELECT * FROM only_here"); err == nil {
		t.Error("two tests share a database")
	}
	if err := errors.Join(one.Kill(), one.Restart(), one.Pause(), one.Resume()); err == nil || !strings.Contains(err.Error(), "OwnPostgres") {
		t.Errorf("harm to the shared server: %v", err)
	}
	must(t, one.Close())
}

func TestDatabasesAreDroppedWithTheTest(t *testing.T) {
	var name string
	t.Run("inner", func(t *testing.T) {
		p := Postgres(t)
		config, err := pgx.ParseConfig(p.URL())
		must(t, err)
		name = config.Database
		held, err := pgx.Connect(t.Context(), p.URL()) // a connection left open must not keep it alive
		must(t, err)
		_ = held
	})
	if err := execute(Postgres(t).URL(), fmt.Sprintf("DO $$ BEGIN ASSERT NOT EXISTS (SELECT FROM pg_database WHERE datname = '%s'); END $$", name)); err != nil {
		t.Error(err)
	}
}

func TestOwnPostgresCanBeKilled(t *testing.T) {
	p := OwnPostgres(t)
	must(t, p.Kill())
	must(t, p.Restart())
	must(t, execute(p.URL(), "SELECT 1"))
}

func TestForeignServersAreNotHarmed(t *testing.T) {
	node, database := Redis(t, 1)[0], OwnPostgres(t)
	t.Setenv(redisVariable, node.URL()+" , "+node.URL())
	t.Setenv(postgresVariable, database.URL())

	foreign := Redis(t, 2)[1]
	must(t, foreign.Client().Set(t.Context(), "k", "v", 0).Err())
	for name, harm := range map[string]func() error{
		"kill": foreign.Kill, "pause": foreign.Pause, "resume": foreign.Resume, "restart": foreign.Restart, "keep": foreign.RestartKeepingData,
		"flush": func() error { return foreign.Client().FlushAll(t.Context()).Err() },
		"client pause": func() error {
			return foreign.Client().Do(t.Context(), "CLIENT", "PAUSE", "100").Err()
		},
		"pipeline": func() error {
			_, err := foreign.Client().Pipelined(t.Context(), func(p redis.Pipeliner) error { return p.FlushDB(t.Context()).Err() })
			return err
		},
		"postgres": Postgres(t).Kill, "own postgres": OwnPostgres(t).Restart,
	} {
		if err := harm(); !errors.Is(err, errNotOurs) {
			t.Errorf("%s: %v; want the reason", name, err)
		}
	}
	must(t, foreign.Close())
	must(t, foreign.Close())
	if got := node.Client().Get(t.Context(), "k").Val(); got != "v" {
		t.Errorf("k = %q on the foreign server, want v", got)
	}
	if foreign.Pid() != 0 || node.Pid() == 0 {
		t.Errorf("pid %d of a foreign server, %d of our own", foreign.Pid(), node.Pid())
	}
}

// TestHelperWaits is the child of TestSignalStopsTheServers.
func TestHelperWaits(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		t.Skip("runs only as the child of TestSignalStopsTheServers")
	}
	node, database := Redis(t, 1)[0], OwnPostgres(t)
	fmt.Printf("pids %d %d\n", node.Pid(), database.Pid())
	<-t.Context().Done()
}

func TestSignalStopsTheServers(t *testing.T) {
	Redis(t, 1) // skips where there are none
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestHelperWaits$")
			cmd.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+openTempDir(t))
			out, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			var redisPid, postgresPid int
			for lines := bufio.NewScanner(out); postgresPid == 0 && lines.Scan(); {
				_, _ = fmt.Sscanf(lines.Text(), "pids %d %d", &redisPid, &postgresPid)
			}
			if redisPid == 0 || postgresPid == 0 {
				t.Fatal("the child started no servers")
			}
			must(t, cmd.Process.Signal(sig))
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != sig {
				t.Errorf("the child ended with %v, want %v", err, sig)
			}
			waitGone(t, redisPid, postgresPid)
		})
	}
}

// openTempDir is a folder that Postgres' user can enter, unlike t.TempDir. It
// takes what a killed child leaves behind.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "testenv")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o711))
	return dir
}

func waitGone(t *testing.T, pids ...int) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(end) {
				t.Fatalf("process %d outlives its parent", pid)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// alive tells a running process from a zombie that nobody has reaped yet.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
