package fallback

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Listen says where wake-ups come from (R19). Listening takes one direct
// connection besides the pool: LISTEN does not survive a pooler in transaction
// mode. Whoever waits re-reads once a second anyway, so wake-ups are only
// speed.
type Listen struct {
	// Off is the poll-only mode: nothing is listened to and nothing is sent to
	// other processes. Waiters of this process are still woken. Defaults to
	// false.
	Off bool
	// Conn leads to the server directly. Defaults to the pool's own
	// configuration, and to Off where the pool keeps no prepared statements,
	// which says that a pooler is in between.
	Conn *pgx.ConnConfig
}

// Payloads on the channel: "?" and who asks, or "!", then the digest.
const (
	payloadWanted = "?"
	payloadWake   = "!"
)

// A post keeps which keys other processes wait for, as far as heard.
type post struct {
	self    string // names this ledger on the channel
	channel string
	on      bool

	mu     sync.Mutex
	wanted map[Digest]time.Time // until when to send hints
}

// wantedFor is how long a wish is remembered, maxWanted how many are. What is
// forgotten falls back to polling.
const (
	wantedFor = 10 * time.Minute
	maxWanted = 10_000
)

func newPost(schema string, on bool) post {
	token := NewToken()
	return post{
		self:    hex.EncodeToString(token[:8]),
		channel: fmt.Sprintf("redfence_%016x", uint64(advisoryKey(schema, "channel"))),
		on:      on,
		wanted:  make(map[Digest]time.Time),
	}
}

// hear takes one payload: a wish is noted, a hint goes to the waiters here.
func (p *Postgres) hear(payload string) {
	switch {
	case strings.HasPrefix(payload, payloadWake):
		if d, ok := digestOf(payload[1:]); ok {
			p.hint(d)
		}
	case strings.HasPrefix(payload, payloadWanted):
		who, text, _ := strings.Cut(payload[1:], " ")
		if d, ok := digestOf(text); ok && who != p.post.self {
			p.post.want(d)
		}
	}
}

func digestOf(text string) (d Digest, ok bool) {
	n, err := hex.Decode(d[:], []byte(text[:min(len(text), 2*len(d))]))
	return d, err == nil && n == len(d)
}

func (b *post) want(d Digest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if len(b.wanted) >= maxWanted {
		for old, until := range b.wanted {
			if now.After(until) {
				delete(b.wanted, old)
			}
		}
	}
	if len(b.wanted) < maxWanted {
		b.wanted[d] = now.Add(wantedFor)
	}
}

// take reports whether another process waits for the key, and forgets it.
func (b *post) take(d Digest) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	until, ok := b.wanted[d]
	delete(b.wanted, d)
	return ok && time.Now().Before(until)
}

// Wake implements Waker. Only keys that another process has asked for cost a
// statement, which all who send at the same time share and nobody waits for.
func (p *Postgres) Wake(_ context.Context, d Digest) error {
	p.hint(d)
	if !p.post.on || !p.post.take(d) {
		return nil
	}
	if !p.work.join() {
		return ErrClosed
	}
	go func() {
		defer p.work.leave()
		ctx, cancel := p.bounded()
		defer cancel()
		_, _ = p.hints.call(ctx, d, payloadWake+d.String()) // a hint may be lost
	}()
	return nil
}

// Watch implements Waker. It tells the other processes in the background.
func (p *Postgres) Watch(d Digest) (<-chan struct{}, func()) {
	wake, stop := p.hub.Watch(d)
	if p.post.on {
		// Fire and forget: without it the waiter polls.
		_, _ = p.hints.enter(p.ctx, d, payloadWanted+p.post.self+" "+d.String())
	}
	return wake, stop
}

func (p *Postgres) runHints(batch []*ticket[string, struct{}]) {
	payloads := column(batch, func(t *ticket[string, struct{}]) string { return t.ask })
	ctx, cancel := p.bounded()
	defer cancel()
	err := p.with(ctx, func(c *pgx.Conn) error {
		_, err := p.query(ctx, c, step{statement: &p.sql.notify, args: []any{p.post.channel, payloads}, scan: nil})
		return err
	})
	for _, t := range batch {
		t.settle(struct{}{}, verdictOf(err))
	}
}

// startListener listens in the background until Close.
func (p *Postgres) startListener() {
	if !p.post.on || !p.work.join() {
		return
	}
	go func() {
		defer p.work.leave()
		p.listen()
	}()
}

// Reconnecting after a broken LISTEN begins with the short pause.
const (
	shortPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
)

func (p *Postgres) listen() {
	for pause := shortPause; p.ctx.Err() == nil; pause = min(2*pause, longPause) {
		if p.listenOnce() {
			pause = shortPause
		}
		select {
		case <-p.ctx.Done():
		case <-time.After(jittered(pause)):
		}
	}
}

// listenOnce hears one connection to its end. It reports whether it got as far
// as listening.
func (p *Postgres) listenOnce() bool {
	ctx, cancel := context.WithTimeout(p.ctx, p.cfg.AcquireTimeout+p.cfg.answerTime())
	defer cancel()
	c, err := p.direct(ctx)
	if err != nil {
		return false
	}
	defer discard(c)
	if _, err := c.Exec(ctx, "LISTEN "+pgx.Identifier{p.post.channel}.Sanitize()); err != nil {
		return false
	}
	p.hintAll() // what was sent before now is lost: waiters re-read
	for p.ctx.Err() == nil && p.hearNext(c) {
	}
	return true
}

// hearNext waits for one notification. A silent connection is asked whether it
// is still alive.
func (p *Postgres) hearNext(c *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(p.ctx, 15*time.Second)
	defer cancel()
	n, err := c.WaitForNotification(ctx)
	if err == nil {
		p.hear(n.Payload)
		return true
	}
	if p.ctx.Err() != nil || ctx.Err() == nil || c.IsClosed() {
		return false
	}
	alive, cancelPing := context.WithTimeout(p.ctx, p.cfg.AcquireTimeout)
	defer cancelPing()
	return c.Ping(alive) == nil
}

// direct opens the listener's own connection.
func (p *Postgres) direct(ctx context.Context) (*pgx.Conn, error) {
	if p.cfg.Listen.Conn != nil {
		return pgx.ConnectConfig(ctx, p.cfg.Listen.Conn.Copy())
	}
	pool := p.pool.Config()
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, pool.ConnConfig); err != nil {
			return nil, err
		}
	}
	return pgx.ConnectConfig(ctx, pool.ConnConfig)
}
