// Package contend holds what the benchmark compares: locks, ours and others',
// and ways to run work once per key. Each is used as its own documentation
// recommends, with options that are printed beside its figures.
package contend

import (
	"context"
	"errors"
	"io"

	"github.com/redis/go-redis/v9"
)

// Servers are the stores that a contender may use.
type Servers struct {
	// Redis are the addresses of independent nodes, host:port.
	Redis []string
	// Postgres is the URL of an empty database.
	Postgres string
	// Processes is how many processes use the servers at the same time, if
	// more than one. Those that need a connection for each request share the
	// database's connections evenly.
	Processes int
}

// An Unlock gives a lock back. An error means that it was no longer held or
// that the store could not be reached.
type Unlock func(context.Context) error

// A Locker locks names. It is safe for concurrent use.
type Locker interface {
	// Lock waits until it holds the name, in the way that its documentation
	// shows.
	Lock(ctx context.Context, name string) (Unlock, error)
	// TryLock makes one try; ok is false when another holds the name.
	TryLock(ctx context.Context, name string) (unlock Unlock, ok bool, err error)
	// Close frees connections.
	Close() error
}

// A LockContender makes Lockers.
type LockContender struct {
	Name string
	// Options says how it is used, for people.
	Options string
	// Open connects one instance, as one process would.
	Open func(ctx context.Context, s Servers) (Locker, error)
}

// Work is what runs once per key; it returns the response to keep.
type Work func() ([]byte, error)

// A Doer runs work once per key. It is safe for concurrent use.
type Doer interface {
	// Do returns the response of the one run for the id, and whether it was an
	// earlier one.
	Do(ctx context.Context, id string, work Work) (response []byte, replayed bool, err error)
	// Close frees connections.
	Close() error
}

// A DoContender makes Doers.
type DoContender struct {
	Name    string
	Options string
	Open    func(ctx context.Context, s Servers) (Doer, error)
}

// dial makes a client per address with go-redis's own defaults, changed by
// change if that is not nil.
func dial(addrs []string, change func(*redis.Options)) []*redis.Client {
	clients := make([]*redis.Client, len(addrs))
	for i, addr := range addrs {
		options := &redis.Options{Addr: addr}
		if change != nil {
			change(options)
		}
		clients[i] = redis.NewClient(options)
	}
	return clients
}

func closeAll[C io.Closer](clients []C) error {
	var errs []error
	for _, c := range clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
