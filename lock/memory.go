package lock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redfence/redfence/internal/problems"
)

// Memory is a Locker in this process, for the tests of code that uses locks.
// Its clock stands still until Advance moves it, so leases lapse exactly when
// a test says so: Stop keeps a lease from being renewed, as if its holder had
// frozen. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	now     time.Time
	cfg     Config
	fence   int64
	holders map[string]*memoryLease
	lines   map[string][]chan struct{} // waiters, the longest waiting first
}

var _ Locker = (*Memory)(nil)

// NewMemory returns an empty Memory. Of cfg, TTL, MaxTTL and MaxHold matter;
// it defaults to Config{}.
func NewMemory(cfg ...Config) *Memory {
	c := Config{}
	if len(cfg) > 0 {
		c = cfg[0]
	}
	return &Memory{
		now:     time.Now().Round(0),
		cfg:     c.withDefaults(),
		holders: map[string]*memoryLease{},
		lines:   map[string][]chan struct{}{},
	}
}

// Now returns the time of the manual clock.
func (m *Memory) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock. Leases that are renewed (which is the rule; see
// Stop) stay valid; others lapse, warn or reach their MaxHold in between, in
// the order of time.
func (m *Memory) Advance(d time.Duration) {
	m.mu.Lock()
	m.now = m.now.Add(d)
	var due []*memoryLease
	for _, l := range m.holders {
		due = append(due, l)
	}
	slices.SortFunc(due, func(a, b *memoryLease) int { return a.until.Compare(b.until) })
	var calls []func()
	for _, l := range due {
		calls = append(calls, m.age(l)...)
	}
	m.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// age brings a lease up to the clock and returns what is to be told. m.mu is
// held.
func (m *Memory) age(l *memoryLease) (calls []func()) {
	held := l.limit.IsZero() || m.now.Before(l.limit)
	if held && !l.stopped {
		l.extend()
		return nil
	}
	if held && m.now.Before(l.until) {
		if tell := l.o.Warn; tell != nil && l.until.Sub(m.now) <= l.o.WarnBefore && !l.warned {
			l.warned = true
			calls = append(calls, func() { tell(l) })
		}
		return calls
	}
	m.end(l, ErrLost)
	return nil
}

// Stop ends the renewal of a lease of this Memory: it lapses when the clock
// passes ValidUntil, unless Extend is called.
func (m *Memory) Stop(lease Lease) {
	if l, ok := lease.(*memoryLease); ok {
		m.mu.Lock()
		l.stopped = true
		m.mu.Unlock()
	}
}

// TryAcquire implements Locker.
func (m *Memory) TryAcquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	o, err := m.options(name, opts)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Op: opAcquire, Name: name, Ctx: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.holders[name]; l != nil {
		return nil, m.taken(l)
	}
	return m.grant(ctx, name, o), nil
}

// Acquire implements Locker. Waiters are served in order.
func (m *Memory) Acquire(ctx context.Context, name string, opts ...Option) (Lease, error) {
	o, err := m.options(name, opts)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &Error{Op: opAcquire, Name: name, Ctx: err}
	}
	turn := make(chan struct{}, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines[name] = append(m.lines[name], turn)
	defer m.leave(name, turn)
	for m.holders[name] != nil || m.lines[name][0] != turn {
		m.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
		}
		m.mu.Lock()
		if err := ctx.Err(); err != nil {
			return nil, &Error{Op: opAcquire, Name: name, Reason: ErrTaken, Ctx: err}
		}
	}
	return m.grant(ctx, name, o), nil
}

// leave takes a waiter out of the line, and lets the next one look. m.mu is
// held.
func (m *Memory) leave(name string, turn chan struct{}) {
	m.lines[name] = slices.DeleteFunc(m.lines[name], func(t chan struct{}) bool { return t == turn })
	m.wake(name)
	if len(m.lines[name]) == 0 {
		delete(m.lines, name)
	}
}

func (m *Memory) wake(name string) {
	if line := m.lines[name]; len(line) > 0 {
		signal(line[0])
	}
}

func (m *Memory) options(name string, opts []Option) (Options, error) {
	o := Resolve(Options{TTL: m.cfg.TTL, MaxHold: m.cfg.MaxHold}, opts...)
	var list problems.List
	checkAcquire(&list, name, o)
	if o.TTL > m.cfg.MaxTTL {
		list.Add("TTL: %v is above MaxTTL %v", o.TTL, m.cfg.MaxTTL)
	}
	if err := list.Err(); err != nil {
		return o, fmt.Errorf("lock: acquire %s: %w: %w", quoted(name), ErrNotAcquired, err)
	}
	return o, nil
}

func (m *Memory) taken(l *memoryLease) error {
	return &Error{Op: opAcquire, Name: l.name, Reason: ErrTaken, Holder: m.cfg.Owner, Remaining: l.until.Sub(m.now)}
}

func (m *Memory) grant(ctx context.Context, name string, o Options) *memoryLease {
	m.fence++
	l := &memoryLease{m: m, name: name, o: o, fence: m.fence}
	if o.MaxHold > 0 {
		l.limit = m.now.Add(o.MaxHold)
	}
	l.extend()
	l.ctx, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	m.holders[name] = l
	return l
}

// end ends a lease that is held. m.mu is held.
func (m *Memory) end(l *memoryLease, cause error) {
	delete(m.holders, l.name)
	l.cancel(cause)
	m.wake(l.name)
}

// memoryLease is the Lease of a Memory; m.mu guards what changes.
type memoryLease struct {
	m     *Memory
	name  string
	o     Options
	fence int64
	limit time.Time // MaxHold; zero: none

	ctx    context.Context
	cancel context.CancelCauseFunc

	until           time.Time
	stopped, warned bool
}

// Name implements Lease.
func (l *memoryLease) Name() string { return l.name }

// Context implements Lease.
func (l *memoryLease) Context() context.Context { return l.ctx }

// Done implements Lease.
func (l *memoryLease) Done() <-chan struct{} { return l.ctx.Done() }

// Fence implements Lease.
func (l *memoryLease) Fence() int64 { return l.fence }

// ValidUntil implements Lease, on the Memory's clock.
func (l *memoryLease) ValidUntil() time.Time {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	return l.until
}

// Extend implements Lease.
func (l *memoryLease) Extend(ctx context.Context) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if cause := context.Cause(l.ctx); cause != nil {
		return &Error{Op: opExtend, Name: l.name, Reason: cause}
	}
	if err := ctx.Err(); err != nil {
		return &Error{Op: opExtend, Name: l.name, Ctx: err}
	}
	l.extend()
	return nil
}

// extend starts the TTL anew, within MaxHold. m.mu is held.
func (l *memoryLease) extend() {
	l.until, l.warned = l.m.now.Add(l.o.TTL), false
	if !l.limit.IsZero() && l.limit.Before(l.until) {
		l.until = l.limit
	}
}

// Release implements Lease.
func (l *memoryLease) Release(context.Context) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	switch context.Cause(l.ctx) {
	case ErrNotHeld:
		return nil
	case nil:
		l.m.end(l, ErrNotHeld)
		return nil
	}
	return &Error{Op: opRelease, Name: l.name, Reason: ErrLost}
}
