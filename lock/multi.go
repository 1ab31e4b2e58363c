package lock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// AcquireAll acquires every name or none, waiting as Acquire does, and returns
// one lease for them. It takes them one after the other in sorted order, so
// that callers that want overlapping sets cannot block each other for ever.
// Names that occur twice count once.
//
// The lease ends as soon as any part of it does; what is left is released when
// its validity is over. Its name is the names joined by commas. Its fence is the largest
// of the parts' and serves for each of the names, with lockers whose fences
// grow over all names: Redlock, the engine and Memory are such.
func AcquireAll(ctx context.Context, locker Locker, names []string, opts ...Option) (Lease, error) {
	return acquireAll(ctx, locker.Acquire, names, opts)
}

// TryAcquireAll is AcquireAll without waiting for a holder.
func TryAcquireAll(ctx context.Context, locker Locker, names []string, opts ...Option) (Lease, error) {
	return acquireAll(ctx, locker.TryAcquire, names, opts)
}

type acquireFunc func(ctx context.Context, name string, opts ...Option) (Lease, error)

func acquireAll(ctx context.Context, acquire acquireFunc, names []string, opts []Option) (Lease, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		names = []string{""} // refused by the locker, in its words
	}
	var parts []Lease
	for _, name := range names {
		part, err := acquire(ctx, name, opts...)
		if err != nil {
			_ = releaseAll(ctx, parts) // the acquire's error is the one that counts
			return nil, err
		}
		parts = append(parts, part)
	}
	if err := shareFence(ctx, parts); err != nil {
		_ = releaseAll(ctx, parts)
		return nil, err
	}
	return newMulti(ctx, names, parts), nil
}

// shareFence makes the largest fence of the parts serve for each of their names:
// where the nodes of one name may be behind it, they are brought up to it.
func shareFence(ctx context.Context, parts []Lease) error {
	fence := largestFence(parts)
	for _, part := range parts {
		if p, ok := part.(interface {
			reach(ctx context.Context, fence int64) error
		}); ok {
			if err := p.reach(ctx, fence); err != nil {
				return err
			}
		}
	}
	return nil
}

func largestFence(parts []Lease) int64 {
	var fence int64
	for _, part := range parts {
		fence = max(fence, part.Fence())
	}
	return fence
}

// multi is the lease of several names.
type multi struct {
	name  string
	parts []Lease

	ctx    context.Context
	cancel context.CancelCauseFunc
	stops  []func() bool

	mu       sync.Mutex
	released bool
}

func newMulti(ctx context.Context, names []string, parts []Lease) *multi {
	m := &multi{name: strings.Join(names, ","), parts: parts}
	m.ctx, m.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, part := range parts {
		m.stops = append(m.stops, context.AfterFunc(part.Context(), func() { m.lose(context.Cause(part.Context())) }))
	}
	return m
}

// lose ends the lease because one of its parts has ended. The others stay as long
// as the holder may rely on them.
func (m *multi) lose(cause error) {
	if !m.end(cause) {
		return
	}
	time.AfterFunc(time.Until(m.ValidUntil()), m.giveBack)
}

// giveBack releases what is left, and does not wait for it.
func (m *multi) giveBack() {
	for _, part := range m.parts {
		ReleaseLater(part)
	}
}

// end ends the lease once; false: it had ended.
func (m *multi) end(cause error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return false
	}
	for _, stop := range m.stops {
		stop()
	}
	m.cancel(cause)
	return true
}

// Name implements Lease.
func (m *multi) Name() string { return m.name }

// Context implements Lease.
func (m *multi) Context() context.Context { return m.ctx }

// Done implements Lease.
func (m *multi) Done() <-chan struct{} { return m.ctx.Done() }

// Fence implements Lease.
func (m *multi) Fence() int64 { return largestFence(m.parts) }

// ValidUntil implements Lease.
func (m *multi) ValidUntil() time.Time {
	first := m.parts[0].ValidUntil()
	for _, part := range m.parts[1:] {
		if t := part.ValidUntil(); t.Before(first) {
			first = t
		}
	}
	return first
}

// Extend implements Lease.
func (m *multi) Extend(ctx context.Context) error {
	if m.ctx.Err() != nil {
		return &Error{Op: opExtend, Name: m.name, Reason: context.Cause(m.ctx)}
	}
	return each(m.parts, func(part Lease) error { return part.Extend(ctx) })
}

// Release implements Lease.
func (m *multi) Release(ctx context.Context) error {
	ended := m.end(ErrNotHeld)
	m.mu.Lock()
	again := m.released
	m.released = true
	m.mu.Unlock()
	switch {
	case again:
		return nil
	case !ended:
		m.giveBack()
		return &Error{Op: opRelease, Name: m.name, Reason: ErrLost}
	}
	return releaseAll(ctx, m.parts)
}

func releaseAll(ctx context.Context, parts []Lease) error {
	return each(parts, func(part Lease) error { return part.Release(ctx) })
}

// each runs do for every part at once and returns the first part's error.
func each(parts []Lease, do func(Lease) error) error {
	errs := make([]error, len(parts))
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() { errs[i] = do(part) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
