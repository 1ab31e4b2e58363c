package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redfence/redfence/chaos/internal/history"
)

// The phases that a Hook is called for. What passes by itself has only the
// first.
const (
	Inject = "inject"
	Heal   = "heal"
)

// A Hook breaks and mends the parts of a deployment that somebody else runs.
type Hook interface {
	// Do does a fault, or undoes it, and says how it was seen to have
	// happened.
	Do(ctx context.Context, fault history.Action, phase string) (proof string, err error)
}

// Target is a deployment that somebody else runs: a service at URLs, and a
// hook that breaks and mends it. Nobody looks into its stores.
type Target struct {
	urls  []string
	nodes int
	hook  Hook

	mu   sync.Mutex // guards open
	open []history.Action
}

// NewTarget returns the deployment whose service answers at the URLs and that
// has so many Redis nodes.
func NewTarget(urls []string, nodes int, hook Hook) *Target {
	return &Target{urls: urls, nodes: nodes, hook: hook}
}

// Instances implements Cluster.
func (t *Target) Instances() []string { return t.urls }

// Nodes implements Cluster.
func (t *Target) Nodes() int { return t.nodes }

// Do implements Cluster: the hook does it.
func (t *Target) Do(ctx context.Context, a history.Action) (proof string, err error) {
	if !a.Mends() {
		t.opened(a)
		return t.hook.Do(ctx, a, Inject)
	}
	fault, ok := t.mended(a)
	if !ok {
		return "", errors.New("nothing was broken that it could mend")
	}
	if proof, err = t.hook.Do(ctx, fault, Heal); err == nil {
		t.closed(fault)
	}
	return proof, err
}

// opened remembers what must be healed, before it is broken: half of it may
// have happened when the hook fails.
func (t *Target) opened(fault history.Action) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if fault.MendedBy() != "" {
		t.open = append(t.open, fault)
	}
}

// mended returns the latest open fault that an action mends.
func (t *Target) mended(by history.Action) (fault history.Action, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, fault := range slices.Backward(t.open) {
		if fault.MendedBy() == by.Kind && fault.Number() == by.Number() {
			return fault, true
		}
	}
	return fault, false
}

func (t *Target) closed(fault history.Action) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.open = slices.DeleteFunc(t.open, func(a history.Action) bool { return a == fault })
}

// Lockers implements Cluster: plain locks are not asked for.
func (t *Target) Lockers() []string { return nil }

// Transfers implements Cluster.
func (t *Target) Transfers() bool { return false }

// Rows implements Cluster: the ledger is not read.
func (t *Target) Rows(context.Context, []string) ([]history.Row, error) { return nil, nil }

// Accounts implements Cluster.
func (t *Target) Accounts(context.Context) (*history.Accounts, error) { return nil, nil }

// Locks implements Cluster: the nodes are not looked at.
func (t *Target) Locks(context.Context) ([]string, error) { return nil, nil }

// Health implements Cluster: whoever runs the deployment looks after it.
func (t *Target) Health() error { return nil }

// healLimit bounds how long a deployment is being mended at the end.
const healLimit = 2 * time.Minute

// Close implements Cluster: what is still broken is mended, also after a run
// that was interrupted.
func (t *Target) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), healLimit)
	defer cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	var failed error
	for _, fault := range slices.Backward(t.open) {
		if _, err := t.hook.Do(ctx, fault, Heal); err != nil {
			failed = errors.Join(failed, fmt.Errorf("chaos: %s is left: %w", fault, err))
		}
	}
	t.open = nil
	return failed
}
