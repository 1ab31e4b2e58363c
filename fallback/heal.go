package fallback

import (
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/observe"
)

// A healer knows how to run a batch and how to tell a ticket that it failed.
type healer[Q, R any] struct {
	// try runs a batch. It settles every ticket and returns nil, or settles
	// none and returns why.
	try func([]*ticket[Q, R]) error
	// fail settles a ticket with an error.
	fail func(*ticket[Q, R], error)
}

// heal runs a batch and sees to it that a failure hurts only the row that
// caused it. What cannot be answered by running the batch once goes on off the
// lane, so that the next batch does not wait.
func heal[Q, R any](p *Postgres, batch []*ticket[Q, R], h healer[Q, R]) {
	err := h.try(batch)
	if err != nil && passing(err) {
		err = h.try(open(batch)) // on another connection, or after whoever was in the way
	}
	if err == nil {
		return
	}
	if !curable(err) {
		h.failAll(open(batch), err)
		return
	}
	if len(batch) > 1 {
		p.cfg.Observer.Observe(observe.LedgerSplit{Calls: len(batch), Err: err})
	}
	aside(p, func() { h.split(p, open(batch), err) })
}

// aside runs work off the lane, unless too much is there already.
func aside(p *Postgres, work func()) {
	select {
	case p.wards <- struct{}{}:
		p.work.wg.Add(1) // the lane's own worker is inside: the group is not empty
		go func() {
			defer p.work.leave()
			defer func() { <-p.wards }()
			work()
		}()
	default:
		work()
	}
}

// curable errors may be those of one row: one that the server rejects or that
// cannot be sent, one that is locked, one that takes too long, one that is
// damaged on disk. All else is the same for every row of the batch.
func curable(err error) bool {
	return rowsFault(err) || howFar(err) == aborted && (retryable(err) || damaged(err))
}

// damaged: the server cannot read a row or its response.
func damaged(err error) bool { return strings.HasPrefix(code(err), "XX") }

// passing errors are nobody's fault, and the whole batch may be tried again.
func passing(err error) bool {
	if howFar(err) != aborted {
		return false
	}
	c := code(err)
	return unfit(err) || c == codeSerialization || c == codeDeadlock
}

func (h healer[Q, R]) failAll(batch []*ticket[Q, R], err error) {
	for _, t := range batch {
		h.fail(t, err)
	}
}

// split runs a failed batch in parts: the rows that another session has locked
// singly and all at once, the rest in halves, then singly.
func (h healer[Q, R]) split(p *Postgres, batch []*ticket[Q, R], err error) {
	if len(batch) == 1 {
		h.alone(batch, err)
		return
	}
	if code(err) == codeLockTimeout {
		if locked := p.suspects(digests(batch)); len(locked) > 0 {
			h.quarantine(p, batch, locked)
			return
		}
	}
	for _, half := range [][]*ticket[Q, R]{batch[:len(batch)/2], batch[len(batch)/2:]} {
		h.again(p, half)
	}
}

// again runs a part of a failed batch.
func (h healer[Q, R]) again(p *Postgres, part []*ticket[Q, R]) {
	if len(part) == 0 {
		return
	}
	switch err := h.try(part); {
	case err == nil:
	case curable(err):
		h.split(p, open(part), err)
	default:
		h.failAll(open(part), err)
	}
}

// alone gives one row a few more tries, if the error can go away. A row that
// stays locked is busy: it has then been waited for twice.
func (h healer[Q, R]) alone(one []*ticket[Q, R], err error) {
	tries := maxTries
	if code(err) == codeLockTimeout {
		tries = 1
	}
	for ; tries > 0 && retryable(err); tries-- {
		if err = h.try(one); err == nil {
			return
		}
		if !curable(err) {
			break
		}
	}
	h.failAll(open(one), err)
}

// quarantine runs the locked rows singly, at the same time as the others.
func (h healer[Q, R]) quarantine(p *Postgres, batch []*ticket[Q, R], locked map[Digest]bool) {
	var healthy []*ticket[Q, R]
	var ill sync.WaitGroup
	bed := make(chan struct{}, cap(p.wards))
	for _, t := range batch {
		if !locked[t.digest] {
			healthy = append(healthy, t)
			continue
		}
		ill.Go(func() {
			bed <- struct{}{}
			defer func() { <-bed }()
			one := []*ticket[Q, R]{t}
			if err := h.try(one); err != nil {
				h.failAll(open(one), err)
			}
		})
	}
	h.again(p, healthy)
	ill.Wait()
}

// suspects returns which of the rows another session has locked; none when
// that cannot be told.
func (p *Postgres) suspects(of [][]byte) map[Digest]bool {
	ctx, cancel := p.bounded()
	defer cancel()
	locked := make(map[Digest]bool)
	err := p.with(ctx, func(c *pgx.Conn) error {
		_, _, err := p.transact(ctx, c, []step{{statement: &p.sql.suspects, args: []any{of}, scan: func(rows pgx.Rows) error {
			var d []byte
			err := rows.Scan(&d)
			locked[Digest(d)] = true
			return err
		}}}, nil)
		return err
	})
	if err != nil {
		return nil
	}
	return locked
}
