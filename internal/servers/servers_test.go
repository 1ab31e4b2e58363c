package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"
)

// parentVariable turns the test binary into a program that starts servers,
// prints what they are, and waits to be killed.
const parentVariable = "REDFENCE_SERVERS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) != "" {
		beParent()
	}
	goleak.VerifyTestMain(m)
}

func needServers(t *testing.T) {
	t.Helper()
	if err := Available(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

func newRedis(t *testing.T, o RedisOptions) *Redis {
	t.Helper()
	needServers(t)
	r, err := StartRedis(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, r.Close()) })
	return r
}

func newPostgres(t *testing.T) *Postgres {
	t.Helper()
	needServers(t)
	p, err := StartPostgres(t.Context(), PostgresOptions{NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, p.Close()) })
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRedisComesBackEmptyOnTheSamePort(t *testing.T) {
	r := newRedis(t, RedisOptions{})
	ctx := t.Context()
	must(t, r.Client().Set(ctx, "k", "v", 0).Err())
	addr, before := r.Addr(), r.Pid()

	must(t, r.Kill())
	if r.Pid() != 0 {
		t.Errorf("Pid() = %d after Kill", r.Pid())
	}
	if err := r.Client().Ping(ctx).Err(); err == nil {
		t.Error("a killed server answers")
	}
	must(t, r.Kill()) // down already

	must(t, r.Restart())
	if got := r.Client().Exists(ctx, "k").Val(); got != 0 {
		t.Error("a restarted server has kept its data")
	}
	if r.Addr() != addr || r.Pid() == before || r.Pid() == 0 {
		t.Errorf("after Restart: %s, pid %d; before: %s, pid %d", r.Addr(), r.Pid(), addr, before)
	}
}

func TestRedisKeepsItsDataWhenAsked(t *testing.T) {
	for name, o := range map[string]RedisOptions{"saved": {}, "append-only": {AppendOnly: true}} {
		t.Run(name, func(t *testing.T) {
			r := newRedis(t, o)
			must(t, r.Client().Set(t.Context(), "k", "v", 0).Err())
			must(t, r.RestartKeepingData())
			if got := r.Client().Get(t.Context(), "k").Val(); got != "v" {
				t.Errorf("k = %q, want v", got)
			}
		})
	}
	t.Run("append-only, killed", func(t *testing.T) {
		r := newRedis(t, RedisOptions{AppendOnly: true})
		must(t, r.Client().Set(t.Context(), "k", "v", 0).Err())
		must(t, r.Kill())
		must(t, r.RestartKeepingData())
		if got := r.Client().Get(t.Context(), "k").Val(); got != "v" {
			t.Errorf("k = %q, want v", got)
		}
	})
}

func TestPausedRedisAnswersAfterResume(t *testing.T) {
	r := newRedis(t, RedisOptions{})
	must(t, r.Client().Ping(t.Context()).Err())
	must(t, r.Pause())
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := r.Client().Ping(short).Err(); err == nil {
		t.Error("a paused server answered")
	}
	must(t, r.Resume())
	must(t, r.Client().Ping(t.Context()).Err())
}

func TestRedisIsSetUpForTheEngine(t *testing.T) {
	r := newRedis(t, RedisOptions{Args: []string{"--maxclients", "77"}})
	for name, want := range map[string]string{
		"maxmemory-policy": "noeviction", "save": "", "appendonly": "no", "maxclients": "77", "bind": "127.0.0.1",
	} {
		if got := r.Client().ConfigGet(t.Context(), name).Val()[name]; got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	must(t, r.Client().Do(t.Context(), "DEBUG", "SLEEP", "0").Err())
}

func TestRedisThatCannotStartSaysWhy(t *testing.T) {
	needServers(t)
	_, err := StartRedis(t.Context(), RedisOptions{Args: []string{"--no-such-option", "1"}})
	if err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("StartRedis with a bad option: %v; want its log", err)
	}
}

func TestPostgresSurvivesItsDeath(t *testing.T) {
	p := newPostgres(t)
	must(t, p.Exec(t.Context(), "CREATE TABLE t AS SELECT 7 AS n"))
	before := append(children(p.Pid()), p.Pid())
	if len(before) < 3 {
		t.Fatalf("a postmaster with %d processes", len(before))
	}

	must(t, p.Kill())
	must(t, waitGone(before))
	if p.Pid() != 0 {
		t.Errorf("Pid() = %d after Kill", p.Pid())
	}
	if err := p.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a killed server answers")
	}
	must(t, p.Restart())
	must(t, p.Exec(t.Context(), "SELECT n FROM t"))
}

func TestPausedPostgresAnswersAfterResume(t *testing.T) {
	p := newPostgres(t)
	conn, err := pgx.Connect(t.Context(), p.URL())
	must(t, err)
	defer func() { must(t, conn.Close(context.WithoutCancel(t.Context()))) }()

	must(t, p.Pause())
	result := make(chan error, 1)
	go func() {
		_, err := conn.Exec(t.Context(), "SELECT 1")
		result <- err
	}()
	select {
	case err := <-result:
		t.Errorf("a paused server answered: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	must(t, p.Resume())
	must(t, <-result)
}

func TestPostgresIsDurableUnlessAskedOtherwise(t *testing.T) {
	needServers(t)
	p, err := StartPostgres(t.Context(), PostgresOptions{Settings: map[string]string{"max_connections": "17"}})
	must(t, err)
	defer func() { must(t, p.Close()) }()
	conn, err := pgx.Connect(t.Context(), p.URL())
	must(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "max_connections": "17", "server_encoding": "UTF8", "lc_collate": "C",
	} {
		var got string
		must(t, conn.QueryRow(t.Context(), "SHOW "+name).Scan(&got))
		if got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestCloseWorksInEveryState(t *testing.T) {
	for name, bring := range map[string]func(r *Redis, p *Postgres) error{
		"running": func(*Redis, *Postgres) error { return nil },
		"paused":  func(r *Redis, p *Postgres) error { return errors.Join(r.Pause(), p.Pause()) },
		"killed":  func(r *Redis, p *Postgres) error { return errors.Join(r.Kill(), p.Kill()) },
	} {
		t.Run(name, func(t *testing.T) {
			r, p := newRedis(t, RedisOptions{}), newPostgres(t)
			must(t, bring(r, p))
			must(t, errors.Join(r.Close(), p.Close()))
			must(t, errors.Join(r.Close(), p.Close()))
			for _, dir := range []string{r.folder.path, p.folder.path} {
				if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s is still there: %v", dir, err)
				}
			}
			if err := errors.Join(r.Restart(), p.Restart()); err == nil {
				t.Error("a closed server restarts")
			}
		})
	}
}

func TestCloseAllClosesWhatIsOpen(t *testing.T) {
	r := newRedis(t, RedisOptions{})
	pid := r.Pid()
	must(t, CloseAll())
	must(t, waitGone([]int{pid}))
}

func TestServersDieWithAKilledParent(t *testing.T) {
	needServers(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parentVariable+"=1")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	var pids []int
	var dirs []string
	for line := bufio.NewScanner(out); len(dirs) < 2 && line.Scan(); {
		pid, dir, _ := strings.Cut(line.Text(), " ")
		id, err := strconv.Atoi(pid)
		must(t, err)
		pids = append(append(pids, id), children(id)...)
		dirs = append(dirs, dir)
	}
	if len(pids) < 4 {
		t.Fatalf("the parent started only %v", pids)
	}
	must(t, cmd.Process.Signal(syscall.SIGKILL))
	_ = cmd.Wait()
	must(t, waitGone(pids))

	// Their folders go with the next start by anybody, once they are old enough.
	old := time.Now().Add(-time.Hour)
	for _, dir := range dirs {
		must(t, os.Chtimes(dir, old, old))
	}
	sweep(filepath.Dir(dirs[0]))
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", dir, err)
		}
	}
}

// beParent starts one server of each kind, prints pid and folder of each and
// waits for its end.
func beParent() {
	ctx := context.Background()
	r, err := StartRedis(ctx, RedisOptions{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p, err := StartPostgres(ctx, PostgresOptions{NoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%d %s\n%d %s\n", r.Pid(), r.folder.path, p.Pid(), p.folder.path)
	select {}
}

func TestSweepLeavesTheLivingAlone(t *testing.T) {
	f, err := newFolder("test")
	must(t, err)
	defer func() { must(t, f.remove()) }()
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(f.path, old, old))
	sweep(filepath.Dir(f.path))
	if _, err := os.Stat(f.path); err != nil {
		t.Errorf("the folder of a living process is gone: %v", err)
	}
}

func TestPortsAreReserved(t *testing.T) {
	p, err := reservePort()
	must(t, err)
	if p.number >= firstEphemeral() {
		t.Errorf("port %d is one of outgoing connections", p.number)
	}
	if again, err := tryPort(p.number); err == nil {
		again.release()
		t.Error("a port was given out twice")
	}
	p.release()
	again, err := tryPort(p.number)
	must(t, err)
	again.release()
}

func TestMissingProgramsAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := StartRedis(t.Context(), RedisOptions{})
	if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "make setup") {
		t.Errorf("StartRedis without redis-server: %v", err)
	}
}
