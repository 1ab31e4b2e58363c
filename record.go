package redfence

import (
	"context"
	"fmt"
	"slices"

	"github.com/redfence/redfence/cache"
	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/failpoint"
	"github.com/redfence/redfence/internal/payload"
	"github.com/redfence/redfence/observe"
)

// replay gives the response that a row or a cached record holds.
func (e *Engine) replay(c *call, row *fallback.Record) verdict {
	if row.State == fallback.Tombstone {
		return verdict{shared: true, err: notReplayable(row.Status, row.Reason)}
	}
	p, err := e.codec.Decode(row.Response, c.digest[:])
	if err != nil {
		return verdict{err: &Error{Kind: ErrNotReplayable, Err: err}}
	}
	v := verdict{shared: true, res: Result{Outcome: Replayed, Fence: row.Fence, Durable: true}}
	if p.IsErr {
		v.err = &StoredError{Text: p.Err}
		return v
	}
	v.res.Response = Response{Status: p.Status, Header: p.Header, Body: slices.Clone(p.Body)} // the record is shared
	return v
}

func notReplayable(status int, reason string) error {
	return &Error{Kind: ErrNotReplayable, Err: fmt.Errorf("status %d: %s", status, reason)}
}

// recovered is a replay from the ledger after the cache had missed it (R7).
func (e *Engine) recovered(c *call, row *fallback.Record) verdict {
	if c.route == observe.Primary {
		e.cfg.Observer.Observe(observe.FallbackRecovered{Key: c.ref()})
		e.put(c, row)
	}
	return e.replay(c, row)
}

// put gives a committed terminal record to the cache (R12).
func (e *Engine) put(c *call, row *fallback.Record) {
	if row.State != fallback.Completed && row.State != fallback.Tombstone || failpoint.Hit(e.background.ctx, "before-cache-put") != nil {
		return
	}
	kind, content := cache.Completed, row.Response
	if row.State == fallback.Tombstone {
		kind, content = cache.Tombstone, []byte(row.Reason)
	}
	now, _, ok := e.ledger.Clock()
	if !ok {
		return
	}
	e.cache.Put(cache.Record{
		Kind: kind, Digest: c.digest, Token: row.Token, Fence: row.Fence,
		Fingerprint: cache.Fingerprint(row.Fingerprint),
		ExpiresAt:   row.ExpiresAt, Status: row.Status, Payload: content,
	}, now)
}

// fromCache is a cached record as the row that it is a copy of.
func fromCache(c *call, rec cache.Record) fallback.Record {
	row := fallback.Record{
		Key: c.key, Digest: c.digest, State: fallback.Completed, Token: rec.Token, Fence: rec.Fence,
		Fingerprint: fallback.Fingerprint(rec.Fingerprint),
		ExpiresAt:   rec.ExpiresAt, Status: rec.Status, Response: rec.Payload,
	}
	if rec.Kind == cache.Tombstone {
		row.State, row.Reason, row.Response = fallback.Tombstone, string(rec.Payload), nil
	}
	return row
}

// decodeResponse opens a stored payload for people and operators.
func decodeResponse(codec *payload.Codec, row *fallback.Record) (Response, error) {
	p, err := codec.Decode(row.Response, row.Digest[:])
	switch {
	case err != nil:
		return Response{}, &Error{Kind: ErrNotReplayable, Err: err}
	case p.IsErr:
		return Response{}, &StoredError{Text: p.Err}
	}
	return Response{Status: p.Status, Header: p.Header, Body: slices.Clone(p.Body)}, nil
}

// erase leaves a marker with the fence of the erasure on every node of the
// cache (R12).
func (e *Engine) erase(ctx context.Context, row *fallback.Record) error {
	return e.cache.Forget(ctx, cache.Record{
		Kind: cache.Forgotten, Digest: row.Digest, Token: row.Token, Fence: row.Fence,
		Fingerprint: cache.Fingerprint(row.Fingerprint), ExpiresAt: row.ExpiresAt,
	}, row.Now)
}
