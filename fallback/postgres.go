package fallback

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/internal/problems"
)

// Postgres is the ledger in a PostgreSQL database (14 or newer). Calls of one
// kind that are made at the same time share statements and commits. It is safe
// for concurrent use. The pool stays the caller's: nothing is set on its
// sessions beyond a transaction, and Close leaves it open.
type Postgres struct {
	hub
	clock

	pool     *pgxpool.Pool
	cfg      Config
	sql      *statements
	settings []any // parameters of sql/settings.sql

	unnamed   bool      // no prepared statements: a pooler is in between
	buffers   sync.Pool // of *[]byte: parameters on their way
	described sync.Map  // statement name to *pgconn.StatementDescription
	maxLease  atomic.Int64
	newest    newest
	doubts    doubts
	contended atomic.Bool // the last batch of claims had lost ones

	claims    lane[ClaimRequest, Verdict]
	reads     lane[struct{}, *Record]
	renewals  lane[renewal, Grant]
	completes lane[Completion, *Record]
	releases  lane[parting, *Record]
	confirms  lane[struct{}, *Record]
	hints     lane[string, struct{}]
	post      post

	seats    chan struct{} // of single statements
	standing atomic.Int64  // those that wait for a seat

	work   group
	wards  chan struct{} // bounds the batches that are being split, off their lane
	ctx    context.Context
	cancel context.CancelFunc
}

var _ Ledger = (*Postgres)(nil)

// Open returns the ledger in the database behind the pool. It fails when
// Postgres cannot be reached, when the schema is missing, older than this
// binary needs or too new for it, when the server is a standby or belongs to
// another system than the ledger was adopted for, and when the fence sequence
// could hand out numbers in another order than that of the draws; all that is
// wrong is in one error.
func Open(ctx context.Context, pool *pgxpool.Pool, cfg Config) (*Postgres, error) {
	p, err := newPostgres(pool, cfg)
	if err != nil {
		return nil, err
	}
	if p.cfg.Migrate {
		if err := Migrate(ctx, pool, p.cfg.Schema); err != nil {
			return nil, err
		}
	}
	if err := p.firstContact(ctx); err != nil {
		return nil, err
	}
	p.begin()
	return p, nil
}

func newPostgres(pool *pgxpool.Pool, cfg Config) (*Postgres, error) {
	var list problems.List
	if pool == nil {
		list.Add("fallback: the pool is nil: pass a *pgxpool.Pool")
	}
	cfg, err := cfg.withDefaults()
	list.AddErr(err)
	if err := list.Err(); err != nil {
		return nil, err
	}
	unnamed := unnamedMode(pool.Config().ConnConfig.DefaultQueryExecMode)
	p := &Postgres{
		pool: pool, cfg: cfg, sql: loadStatements(cfg.Schema, unnamed), unnamed: unnamed,
		settings: []any{timeoutText(cfg.StatementTimeout), timeoutText(cfg.LockTimeout)},
		wards:    make(chan struct{}, 4),
		seats:    make(chan struct{}, seatsAlone),
	}
	p.post = newPost(cfg.Schema, !cfg.Listen.Off && (cfg.Listen.Conn != nil || !p.unnamed))
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.buildLanes()
	return p, nil
}

func (p *Postgres) buildLanes() {
	p.claims = lane[ClaimRequest, Verdict]{run: p.runClaims}
	p.reads = lane[struct{}, *Record]{run: p.runReads, share: true}
	p.renewals = lane[renewal, Grant]{run: p.runRenewals}
	p.completes = lane[Completion, *Record]{run: p.runCompletions,
		size: func(c *Completion) int { return len(c.Response) }}
	p.releases = lane[parting, *Record]{run: p.runReleases}
	p.confirms = lane[struct{}, *Record]{run: p.runConfirms, share: true}
	p.hints = lane[string, struct{}]{run: p.runHints}
	bound(p, &p.claims)
	bound(p, &p.reads)
	bound(p, &p.renewals)
	bound(p, &p.completes)
	bound(p, &p.releases)
	bound(p, &p.confirms)
	bound(p, &p.hints)
}

func bound[Q, R any](p *Postgres, l *lane[Q, R]) {
	l.group, l.maxBatch, l.maxQueue = &p.work, p.cfg.MaxBatch, p.cfg.MaxQueue
}

// firstContact reports everything that keeps the database from being a ledger.
func (p *Postgres) firstContact(ctx context.Context) error {
	conn, err := p.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	id, err := p.identify(ctx, conn.Conn())
	if err != nil {
		return err
	}
	p.maxLease.Store(id.maxLeaseUS)
	var list problems.List
	list.AddErr(p.judge(ctx, conn.Conn(), id))
	for _, f := range p.checkSequence(ctx, conn.Conn()) {
		list.Add("%s: %s", f.What, f.Fix)
	}
	return list.Err()
}

// begin starts the background work that the configuration asks for.
func (p *Postgres) begin() {
	p.startSweeper()
	p.startListener()
}

// Close implements Ledger: it waits for the statements that are under way,
// each bounded by the configured time-outs, and ends background work.
func (p *Postgres) Close() error {
	p.cancel()
	p.work.close()
	return nil
}

// bounded returns a context for one round trip. It is detached from every
// caller: a batch is nobody's own.
func (p *Postgres) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(p.ctx), p.cfg.AcquireTimeout+p.cfg.answerTime())
}

// Clock implements Ledger.
func (p *Postgres) Clock() (time.Time, time.Duration, bool) { return p.clock.now() }

// Read implements Ledger. Reads of one key that wait at the same time are one.
// A key with a claim of this process in doubt is confirmed.
func (p *Postgres) Read(ctx context.Context, d Digest) (Record, error) {
	if len(p.doubts.about(d)) > 0 {
		return p.Confirm(ctx, d)
	}
	return valueOf(p.reads.call(ctx, d, struct{}{}))
}

func (p *Postgres) runReads(batch []*ticket[struct{}, *Record]) {
	records, failed := p.readApart(digests(batch))
	for _, t := range batch {
		t.settle(records[t.digest], verdictOf(failed[t.digest]))
	}
}

// readApart reads rows, in halves when that fails for what can be one row's
// fault: a row that cannot be read fails only itself.
func (p *Postgres) readApart(of [][]byte) (records map[Digest]*Record, failed map[Digest]error) {
	records, err := p.readRows(of)
	if err == nil {
		return records, nil
	}
	records, failed = make(map[Digest]*Record, len(of)), make(map[Digest]error)
	if len(of) == 1 || !curable(err) {
		for _, raw := range of {
			failed[Digest(raw)] = err
		}
		return records, failed
	}
	for _, half := range [][][]byte{of[:len(of)/2], of[len(of)/2:]} {
		some, bad := p.readApart(half)
		maps.Copy(records, some)
		maps.Copy(failed, bad)
	}
	return records, failed
}

// readRows reads rows, and says of those that do not exist that they are
// absent. A read may be repeated at will.
func (p *Postgres) readRows(of [][]byte) (records map[Digest]*Record, err error) {
	for range maxTries {
		records, err = p.readOnce(of)
		if err == nil || !retryable(err) && howFar(err) != inDoubt {
			return records, err
		}
	}
	return records, err
}

// maxTries bounds how often a statement is sent again at once.
const maxTries = 3

func (p *Postgres) readOnce(of [][]byte) (map[Digest]*Record, error) {
	ctx, cancel := p.bounded()
	defer cancel()
	records := make(map[Digest]*Record, len(of))
	var t timing
	var now time.Time
	err := p.with(ctx, func(c *pgx.Conn) (err error) {
		t, err = p.query(ctx, c,
			step{statement: &p.sql.clock, args: nil, scan: func(rows pgx.Rows) error { return rows.Scan(&now) }},
			p.readStep(of, records))
		return err
	})
	if err != nil {
		return nil, err
	}
	p.clock.observe(now, t.boot)
	for _, raw := range of {
		d := Digest(raw)
		if _, ok := records[d]; !ok {
			records[d] = &Record{Digest: d, Now: now}
		}
	}
	p.date(records, t)
	return records, nil
}

// readStep reads rows.
func (p *Postgres) readStep(of [][]byte, into map[Digest]*Record) step {
	digests := parameter{len(of), pgtype.ByteaOID, func(buf []byte, i int) []byte { return append(buf, of[i]...) }}
	return p.sql.read.step(len(of), []any{digests}, gather(into, readRecord))
}

// gather collects records by digest.
func gather(into map[Digest]*Record, read rowReader) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		r, err := read(rows)
		if err == nil {
			into[r.Digest] = r
		}
		return err
	}
}

// valueOf returns what callers get: a record of their own.
func valueOf(r *Record, err error) (Record, error) {
	if r == nil {
		return Record{}, err
	}
	return *r, err
}

// date adds to the records what depends on when their statement was sent, and
// takes a reading of the ledger's clock from one of them.
func (p *Postgres) date(records map[Digest]*Record, t timing) {
	observed := false
	for _, r := range records {
		if !observed {
			p.clock.observe(r.Now, t.boot)
			observed = true
		}
		r.withGrant(t.sent)
	}
}
