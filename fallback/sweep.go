package fallback

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/internal/problems"
	"github.com/redfence/redfence/observe"
)

// A Sweep says how rows that nobody needs any more are removed: released ones,
// and terminal ones whose retention is over. They are claimable all the same;
// sweeping only gives the space back. The sweeper walks the table's pages, so
// that no index on the expiry has to be kept up by every completion, and one
// instance at a time does it.
type Sweep struct {
	// Off leaves the sweeping to other instances, or to a job that calls
	// SweepOnce. Defaults to false.
	Off bool
	// Interval is the pause between two batches. Where a batch finds much to
	// remove the next follows sooner. Defaults to 1 s.
	Interval time.Duration
	// Pages is how many pages (of 8 KiB) a batch looks at. Defaults to 256.
	Pages int
	// Grace is how long a row stays after it has become claimable. It must be
	// longer than any claim statement of any instance can live: one that drew
	// its fence before the row was removed must not insert it afterwards.
	// Defaults to 10 minutes.
	Grace time.Duration
}

func (s Sweep) withDefaults(statement time.Duration) (Sweep, error) {
	orDuration(&s.Interval, time.Second)
	orInt(&s.Pages, 256)
	orDuration(&s.Grace, sweepGrace)
	var list problems.List
	if s.Interval < time.Millisecond {
		list.Add("Sweep.Interval: %v is shorter than 1ms", s.Interval)
	}
	if s.Pages < 1 {
		list.Add("Sweep.Pages: %d is not positive", s.Pages)
	}
	if s.Grace < 2*statement {
		list.Add("Sweep.Grace: %v is shorter than twice StatementTimeout (%v): a claim under way could insert an older fence than one that was granted",
			s.Grace, statement)
	}
	return s, list.Err()
}

// Swept is what one batch of the sweeper did.
type Swept struct {
	// Skipped: another instance was sweeping.
	Skipped bool
	Removed int64
	// Seen counts the rows that were looked at.
	Seen int64
	// Next is the page to go on with, 0 after the last.
	Next int64
}

// SweepOnce removes what can be removed from a batch of pages, beginning with
// the given one.
func (p *Postgres) SweepOnce(ctx context.Context, page int64) (Swept, error) {
	if !p.work.join() {
		return Swept{}, ErrClosed
	}
	defer p.work.leave()
	ctx, cancel := context.WithTimeout(ctx, p.cfg.AcquireTimeout+p.cfg.answerTime())
	defer cancel()
	var s Swept
	var swept bool
	var pages int64
	err := p.with(ctx, func(c *pgx.Conn) error {
		args := []any{page, int64(p.cfg.Sweep.Pages), micros(p.cfg.Sweep.Grace), advisoryKey(p.cfg.Schema, "sweep")}
		_, _, err := p.transact(ctx, c, []step{{statement: &p.sql.sweep, args: args, scan: func(rows pgx.Rows) error {
			return rows.Scan(&swept, &s.Removed, &s.Seen, &pages)
		}}}, nil)
		return err
	})
	if err != nil {
		return Swept{}, verdictOf(err)
	}
	s.Skipped = !swept
	if s.Next = page + int64(p.cfg.Sweep.Pages); s.Next >= pages {
		s.Next = 0
	}
	return s, nil
}

// startSweeper sweeps in the background until Close.
func (p *Postgres) startSweeper() {
	if p.cfg.Sweep.Off || !p.work.join() {
		return
	}
	go func() {
		defer p.work.leave()
		p.sweep()
	}()
}

func (p *Postgres) sweep() {
	var page int64
	pause := p.cfg.Sweep.Interval
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-time.After(jittered(pause)):
		}
		began := time.Now()
		swept, err := p.SweepOnce(p.ctx, page)
		pause = p.cfg.Sweep.Interval
		if err != nil {
			p.cfg.Observer.Observe(observe.LedgerSwept{Err: err, Took: time.Since(began)})
			continue
		}
		if page = swept.Next; swept.Removed > 0 {
			p.cfg.Observer.Observe(observe.LedgerSwept{Rows: swept.Removed, Took: time.Since(began)})
		}
		if swept.Removed*10 >= swept.Seen && swept.Removed > 0 {
			pause = min(pause, time.Since(began)) // at most half of the time
		}
	}
}

// jittered spreads a pause, so that instances do not move in step.
func jittered(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1)
}
