package servers

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
)

// ErrNotInstalled is matched by the error of a start whose program is not on
// this machine.
var ErrNotInstalled = errors.New("not installed")

// Available reports what is missing to start Redis and Postgres servers; nil
// when nothing is. What is missing matches ErrNotInstalled.
func Available() error {
	_, redisErr := redisBinary()
	_, postgresErr := postgresFolder()
	return errors.Join(redisErr, postgresErr)
}

// redisBinary finds redis-server, or valkey-server in its place.
func redisBinary() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("servers: redis-server is %w: run `make setup`, or put it in PATH", ErrNotInstalled)
}

// postgresFolder finds the folder with initdb and postgres: in PATH, else the
// newest of those where Debian's packages keep them.
func postgresFolder() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil && hasPostgres(filepath.Dir(path)) {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	best, bestVersion := "", 0
	for _, dir := range found {
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && version > bestVersion && hasPostgres(dir) {
			best, bestVersion = dir, version
		}
	}
	if best == "" {
		return "", fmt.Errorf("servers: postgres is %w: run `make setup`, or put initdb and postgres in PATH", ErrNotInstalled)
	}
	return best, nil
}

func hasPostgres(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
