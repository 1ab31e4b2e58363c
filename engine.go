// Package redfence makes work happen once.
package redfence

import (
	"context"
	"fmt"
	"os"
)

// An Engine runs the work of a key once among all engines that share its
// ledger. It is safe for concurrent use.
type Engine struct{ cfg Config }

// New composes an engine.
func New(ctx context.Context, cfg Config) (*Engine, error) { return nil, nil }

// Close drains the engine.
func (e *Engine) Close(ctx context.Context) error { return nil }

// processName names this process for people: host name and process id.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d", host, os.Getpid())
}
