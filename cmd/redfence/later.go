package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/redfence/redfence"
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
