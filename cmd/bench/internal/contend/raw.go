package contend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Raw is the floor: the commands that a lock over all nodes must send, sent
// as fast as the client can, with no algorithm around them.
var Raw = LockContender{
	Name:    "raw",
	Options: "all nodes, SET NX and scripted delete through go-redis's AsyncAutoPipeline (MaxConcurrentBatches 8, Unordered), waits for every node; no deadlines, no validity, no clean-up",
	Open:    openRaw,
}

// deleteScript deletes a key that holds a value.
// KEYS[1] the key; ARGV[1] the value. Returns 1 if it was deleted, else 0.
var deleteScript = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end`)

type rawLocker struct {
	clients []*redis.Client
	pipes   []*redis.AutoPipeliner
}

func openRaw(ctx context.Context, s Servers) (Locker, error) {
	l := &rawLocker{clients: dial(s.Redis, nil)}
	for _, c := range l.clients {
		pipe, err := c.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{MaxConcurrentBatches: 8, Unordered: true})
		if err == nil {
			err = deleteScript.Load(ctx, c).Err()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("raw: %w", err), closeAll(l.clients))
		}
		l.pipes = append(l.pipes, pipe)
	}
	return l, nil
}

func (l *rawLocker) Lock(ctx context.Context, name string) (Unlock, error) {
	unlock, ok, err := l.TryLock(ctx, name)
	if err == nil && !ok {
		err = errors.New("raw: taken")
	}
	return unlock, err
}

func (l *rawLocker) TryLock(ctx context.Context, name string) (Unlock, bool, error) {
	token := rand.Text()
	sets := make([]*redis.BoolCmd, len(l.pipes))
	for i, pipe := range l.pipes {
		sets[i] = pipe.SetNX(ctx, name, token, leaseTime)
	}
	votes := 0
	for _, set := range sets {
		won, err := set.Result()
		if err != nil {
			return nil, false, err
		}
		if won {
			votes++
		}
	}
	if votes <= len(l.pipes)/2 {
		return nil, false, nil
	}
	return func(ctx context.Context) error { return l.delete(ctx, name, token) }, true, nil
}

func (l *rawLocker) delete(ctx context.Context, name, token string) error {
	deletes := make([]*redis.Cmd, len(l.pipes))
	for i, pipe := range l.pipes {
		deletes[i] = pipe.EvalSha(ctx, deleteScript.Hash(), []string{name}, token)
	}
	deleted := 0
	for _, d := range deletes {
		n, err := d.Int()
		if err != nil {
			return err
		}
		deleted += n
	}
	if deleted <= len(l.pipes)/2 {
		return errors.New("raw: no longer held")
	}
	return nil
}

func (l *rawLocker) Close() error { return closeAll(l.clients) }
