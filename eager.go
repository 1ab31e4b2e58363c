package redfence

import (
	"context"
	"sync/atomic"

	"github.com/redfence/redfence/cache"
)

// lookAndLock asks for the response and the lock at the same time, which saves a
// round trip where there is no response. Where there is one, the lock is given
// back.
func (e *Engine) lookAndLock(ctx context.Context, c *call) sight {
	lookup := e.cache.Begin(c.digest, e.ledger.Clock)
	lease, refused := e.takeLock(ctx, c)
	rec, result := lookup.End(ctx)
	if rec, ok := e.found(c, rec, result); ok {
		e.unlock(lease)
		return sight{next: replay, row: rec, cache: true}
	}
	return e.lockedOrNot(ctx, c, lease, refused)
}

// eagerness says whether the next look-up will find nothing, by those before.
type eagerness struct{ misses atomic.Int32 }

// eagerAfter is how many look-ups in a row have to find nothing: so many that
// among duplicates hardly a lock is taken in vain.
const eagerAfter = 8

func (g *eagerness) yes() bool { return g.misses.Load() >= eagerAfter }

func (g *eagerness) learn(result cache.Result) {
	switch misses := g.misses.Load(); {
	case result == cache.Hit && misses > 0:
		g.misses.Store(0)
	case result == cache.Absent && misses < eagerAfter:
		g.misses.Add(1)
	}
}
