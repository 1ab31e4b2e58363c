package baseline

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/sony/gobreaker/v2"

	"github.com/redfence/redfence/internal/failpoint"
)

var (
	//go:embed sql/table.sql
	tableSQL string
	//go:embed sql/claim.sql
	claimSQL string
	//go:embed sql/read.sql
	readSQL string
	//go:embed sql/complete.sql
	completeSQL string
	//go:embed sql/release.sql
	releaseSQL string
)

// naive is Redis first, and a row of Postgres when the breaker is open.
type naive struct {
	locks     *locks
	responses responses
	breaker   *gobreaker.CircuitBreaker[*redsync.Mutex]
	pool      *pgxpool.Pool
}

// The breaker's settings are those of the engine.
const (
	failuresToOpen = 3
	openFor        = 500 * time.Millisecond
)

func newNaive(ctx context.Context, c Config) (*naive, error) {
	if _, err := c.Pool.Exec(ctx, tableSQL); err != nil {
		return nil, fmt.Errorf("baseline: make the table: %w", err)
	}
	return &naive{
		locks: newLocks(c), responses: responses{nodes: c.Nodes, retention: c.Retention}, pool: c.Pool,
		breaker: gobreaker.NewCircuitBreaker[*redsync.Mutex](gobreaker.Settings{
			Timeout:      openFor,
			ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failuresToOpen },
			IsSuccessful: func(err error) bool { return err == nil || errors.Is(err, errTaken) },
		}),
	}, nil
}

func (n *naive) do(ctx context.Context, key string, run runner) (*response, bool, error) {
	if n.breaker.State() != gobreaker.StateOpen {
		if r, ok := n.responses.look(ctx, key); ok {
			return r, true, nil
		}
	}
	mutex, err := n.breaker.Execute(func() (*redsync.Mutex, error) { return n.locks.try(ctx, key) })
	switch {
	case errors.Is(err, errTaken):
		return nil, false, errTaken
	case err != nil: // open, or no quorum
		return n.byRow(ctx, key, run)
	}
	return n.locked(ctx, key, mutex, run)
}

// locked goes the primary route.
func (n *naive) locked(ctx context.Context, key string, mutex *redsync.Mutex, run runner) (*response, bool, error) {
	defer unlock(ctx, mutex)
	if r, ok := n.responses.look(ctx, key); ok {
		return r, true, nil
	}
	switch r, err := n.read(ctx, key); {
	case err != nil:
		return nil, false, err
	case r != nil:
		_ = n.responses.put(ctx, key, r)
		return r, true, nil
	}
	defer n.locks.extend(ctx, mutex)()
	r := run(ctx, primary)
	if r.ok() {
		keep(ctx, func() error { return n.responses.put(ctx, key, r) })
	}
	return r, false, nil
}

// read reads the row of a key; nil: there is none.
func (n *naive) read(ctx context.Context, key string) (*response, error) {
	var text []byte
	switch err := n.pool.QueryRow(ctx, readSQL, key).Scan(&text); {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case text == nil:
		return nil, errTaken
	}
	var r response
	return &r, json.Unmarshal(text, &r)
}

// byRow goes the fallback route.
func (n *naive) byRow(ctx context.Context, key string, run runner) (*response, bool, error) {
	if err := failpoint.Hit(ctx, "before-claim"); err != nil {
		return nil, false, err
	}
	tag, err := n.pool.Exec(ctx, claimSQL, key)
	if hit := failpoint.Hit(ctx, "after-claim"); hit != nil {
		err = hit
	}
	switch {
	case err != nil:
		return nil, false, err
	case tag.RowsAffected() == 0:
		r, err := n.read(ctx, key)
		if err == nil && r == nil {
			err = errTaken // released meanwhile
		}
		return r, err == nil, err
	}
	done := false
	defer func() {
		if !done { // also when the handler panics
			_, _ = n.pool.Exec(ctx, releaseSQL, key)
		}
	}()
	r := run(ctx, fallback)
	if done = r.ok(); done {
		keep(ctx, func() error { return n.complete(ctx, key, r) })
	}
	return r, false, nil
}

func (n *naive) complete(ctx context.Context, key string, r *response) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = n.pool.Exec(ctx, completeSQL, key, text)
	return err
}
