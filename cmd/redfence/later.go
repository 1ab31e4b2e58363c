package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/lock"
)

// laterEngine is the engine that the gateway serves with. Until the ledger
// has been reached there is none, and requests with a key are refused: nothing
// is started. It is safe for concurrent use.
type laterEngine struct {
	engine   atomic.Pointer[redfence.Engine]
	draining atomic.Bool
}

var errConnecting = errors.New("connecting to the ledger")

// Do implements redfencehttp.Engine.
func (l *laterEngine) Do(ctx context.Context, req redfence.Request, fn redfence.Handler) (redfence.Result, error) {
	engine := l.engine.Load()
	if engine == nil {
		return redfence.Result{}, &redfence.Error{Op: "do", Key: req.Key(), Kind: redfence.ErrLedgerUnavailable, Err: errConnecting}
	}
	return engine.Do(ctx, req, fn)
}

// Acquire implements lock.Locker.
func (l *laterEngine) Acquire(ctx context.Context, name string, opts ...lock.Option) (lock.Lease, error) {
	engine := l.engine.Load()
	if engine == nil {
		return nil, noLockYet(name)
	}
	return engine.Acquire(ctx, name, opts...)
}

// TryAcquire implements lock.Locker.
func (l *laterEngine) TryAcquire(ctx context.Context, name string, opts ...lock.Option) (lock.Lease, error) {
	engine := l.engine.Load()
	if engine == nil {
		return nil, noLockYet(name)
	}
	return engine.TryAcquire(ctx, name, opts...)
}

func noLockYet(name string) error {
	return errors.Join(lock.ErrNotAcquired, &redfence.Error{
		Op: "acquire", Key: redfence.Key{ID: name}, Kind: redfence.ErrLedgerUnavailable, Err: errConnecting,
	})
}

// ready says whether requests with a key are served now.
func (l *laterEngine) ready(ctx context.Context) error {
	if l.draining.Load() {
		return errors.New("draining")
	}
	engine := l.engine.Load()
	if engine == nil {
		return errConnecting
	}
	// Fresh keys need the ledger on both routes.
	if _, err := engine.Inspect(ctx, redfence.Key{}); err != nil {
		return fmt.Errorf("the ledger does not answer: %w", err)
	}
	return nil
}
