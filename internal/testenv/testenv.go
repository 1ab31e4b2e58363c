// Package testenv gives tests real Redis and Postgres servers, and programs
// the same through StartRedis and StartPostgres.
//
// The servers are started by package servers and end with the test, the test
// binary or the process, whichever comes first. Two variables point tests at
// existing servers instead: REDFENCE_TEST_REDIS_URLS (separated by commas) and
// REDFENCE_TEST_POSTGRES_URL. A test that would kill, pause, restart or flush
// fails on those, with that reason; keys of such tests stay behind, so point
// them at servers made for tests.
//
// A test whose servers are not installed is skipped; it fails where CI is set
// to true.
package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/redfence/redfence/internal/servers"
)

const (
	redisVariable    = "REDFENCE_TEST_REDIS_URLS"
	postgresVariable = "REDFENCE_TEST_POSTGRES_URL"
)

type (
	// RedisOptions say how to start a redis-server.
	RedisOptions = servers.RedisOptions
	// PostgresOptions say how to start a Postgres server.
	PostgresOptions = servers.PostgresOptions
)

// Main runs the tests of a package, stops the servers that they share, checks
// that no goroutine is left, and ends the process with the right code. On
// SIGINT and SIGTERM it stops the servers first.
func Main(m *testing.M, options ...goleak.Option) {
	stop := closeOnSignal()
	code := m.Run()
	stop()
	if err := closeShared(); err != nil {
		fmt.Fprintf(os.Stderr, "testenv: stop the servers: %v\n", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintf(os.Stderr, "testenv: goroutines left behind: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// closeShared stops the shared server and whatever a test forgot.
func closeShared() error {
	return errors.Join(shared.close(), servers.CloseAll())
}

// closeOnSignal stops all servers when the process is asked to end, then lets
// the signal do what it would have done. The function returned undoes it.
func closeOnSignal() (stop func()) {
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	finished := make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer close(finished)
		select {
		case <-done:
		case got := <-signals:
			_ = servers.CloseAll()
			signal.Reset(got)
			_ = syscall.Kill(os.Getpid(), got.(syscall.Signal))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
		<-finished
	}
}

// unavailable ends a test whose servers could not be started: skipped where
// they are not installed, except in CI.
func unavailable(t testing.TB, err error) {
	t.Helper()
	inCI, _ := strconv.ParseBool(os.Getenv("CI"))
	if errors.Is(err, servers.ErrNotInstalled) && !inCI {
		t.Skip(err)
	}
	t.Fatal(err)
}
