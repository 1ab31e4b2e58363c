package fallback

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// A step is one statement of a pipeline. scan is called for each row; what it
// has gathered counts only when the step's transaction is committed.
type step struct {
	statement *statement
	args      []any
	scan      func(pgx.Rows) error
}

// timing is when a pipeline was sent: for the owner's deadline on the
// monotonic clock, for the estimate of the ledger's clock since boot.
type timing struct {
	sent time.Time
	boot time.Duration
}

// transact runs acts in a transaction of their own, durable, bounded and READ
// COMMITTED whatever the session says, and then, in the same round trip but
// outside that transaction, after (nil: nothing). All steps are sent at once.
//
// committed is true only when the server has confirmed the COMMIT: before
// that, rows are no verdict. An error with committed is that of after.
func (p *Postgres) transact(ctx context.Context, c *pgx.Conn, acts []step, after *step) (t timing, committed bool, err error) {
	steps, commit := p.transaction(acts, after)
	ready, done, err := p.prepare(ctx, c, steps)
	if err != nil {
		return timing{}, false, &attemptError{notSent, err}
	}
	t = timing{sent: time.Now(), boot: boot()}
	line := c.PgConn().StartPipeline(ctx)
	for i, r := range ready {
		r.send(line)
		if i == commit && after != nil {
			line.SendPipelineSync()
		}
	}
	done()
	if err = line.Sync(); err == nil {
		committed, err = p.answers(c, line, steps, commit)
	}
	closeErr := line.Close()
	if committed {
		if err != nil {
			err = afterSend(err)
		}
		return t, true, err
	}
	if err == nil {
		err = closeErr
	}
	p.rollback(ctx, c)
	return t, false, afterSend(err)
}

// transaction returns the steps of transact, and which of them commits.
func (p *Postgres) transaction(acts []step, after *step) (steps []step, commit int) {
	steps = []step{{statement: &p.sql.begin}, {statement: &p.sql.settings, args: p.settings}}
	steps = append(steps, acts...)
	steps = append(steps, step{statement: &p.sql.commit})
	commit = len(steps) - 1
	if after != nil {
		steps = append(steps, step{statement: &p.sql.planner}, *after)
	}
	return steps, commit
}

// answers reads the results of all steps of transact.
func (p *Postgres) answers(c *pgx.Conn, line *pgconn.Pipeline, steps []step, commit int) (committed bool, err error) {
	for i, s := range steps {
		tag, err := answer(c, line, s.scan)
		switch {
		case err != nil:
			return i > commit, err
		case i == commit && tag != "COMMIT":
			return false, fmt.Errorf("COMMIT was answered with %q", tag)
		case i == commit && i < len(steps)-1:
			if _, err := line.GetResults(); err != nil { // the Sync in between
				return true, err
			}
		}
	}
	return true, nil
}

// answer reads the result of one step.
func answer(c *pgx.Conn, line *pgconn.Pipeline, scan func(pgx.Rows) error) (tag string, err error) {
	results, err := line.GetResults()
	if err != nil {
		return "", err
	}
	reader, ok := results.(*pgconn.ResultReader)
	if !ok {
		return "", fmt.Errorf("the server answered out of turn (%T)", results)
	}
	if scan == nil {
		end, err := reader.Close()
		return end.String(), err
	}
	rows := pgx.RowsFromResultReader(c.TypeMap(), reader)
	for rows.Next() {
		if err := scan(rows); err != nil {
			rows.Close()
			return "", err
		}
	}
	rows.Close()
	return rows.CommandTag().String(), rows.Err()
}

// rollback ends a transaction that failed, so that the connection can go on.
// What cannot be rolled back is closed: the pool discards it.
func (p *Postgres) rollback(ctx context.Context, c *pgx.Conn) {
	if c.IsClosed() || c.PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := c.PgConn().Exec(ctx, p.sql.rollback.text).ReadAll(); err != nil {
		discard(c)
	}
}

// discard closes a connection without waiting for the server.
func discard(c *pgx.Conn) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	c.Close(gone) // fails because of the context, and closes all the same
}

// query runs reads, as one transaction that the server makes of them.
func (p *Postgres) query(ctx context.Context, c *pgx.Conn, steps ...step) (t timing, err error) {
	steps = append([]step{{statement: &p.sql.planner}}, steps...)
	ready, done, err := p.prepare(ctx, c, steps)
	if err != nil {
		return timing{}, &attemptError{notSent, err}
	}
	t = timing{sent: time.Now(), boot: boot()}
	line := c.PgConn().StartPipeline(ctx)
	for _, r := range ready {
		r.send(line)
	}
	done()
	err = line.Sync()
	for i := 0; err == nil && i < len(steps); i++ {
		_, err = answer(c, line, steps[i].scan)
	}
	if closeErr := line.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return t, afterSend(err)
	}
	return t, nil
}

// timeoutText is a duration as statement_timeout and lock_timeout take it.
func timeoutText(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// timestamp keeps a time as the type that the parameter has.
func timestamp(t time.Time) pgtype.Timestamptz { return pgtype.Timestamptz{Time: t, Valid: true} }

var errNoMeta = errors.New("the meta row is missing")
