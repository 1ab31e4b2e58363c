package work

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redfence/redfence/cmd/bench/internal/contend"
)

// Fresh runs work for ids that are new. Now and then an id is sent again at
// once, which must give the same response without another run.
func Fresh(doer contend.Doer, prefix string, size int) Job {
	check := new(Check)
	return Job{Check: check, Op: func(ctx context.Context, caller, n int) error {
		id := fmt.Sprintf("%s/%d/%d", prefix, caller, n)
		made := Body(id, size)
		got, replayed, err := doer.Do(ctx, id, func() ([]byte, error) { return made, nil })
		if err != nil {
			return err
		}
		if replayed || !bytes.Equal(got, made) {
			check.broke("the first request for %s got another's response", id)
		}
		if due(caller, n) {
			return again(ctx, doer, id, made, check)
		}
		return nil
	}}
}

// again sends an id whose work has run.
func again(ctx context.Context, doer contend.Doer, id string, made []byte, check *Check) error {
	ran := false
	got, replayed, err := doer.Do(ctx, id, func() ([]byte, error) { ran = true; return made, nil })
	if err != nil {
		return err
	}
	if ran || !replayed || !bytes.Equal(got, made) {
		check.broke("%s: a second run (ran %v, replayed %v)", id, ran, replayed)
		return nil
	}
	check.kept()
	return nil
}

// Done is ids whose work has run, with their responses.
type Done struct {
	ids    []string
	bodies [][]byte
}

// Complete runs the work of that many ids.
func Complete(ctx context.Context, doer contend.Doer, prefix string, ids, size int) (Done, error) {
	done := Done{ids: make([]string, ids), bodies: make([][]byte, ids)}
	err := Each(ids, 32, func(i int) error {
		done.ids[i] = fmt.Sprintf("%s/%d", prefix, i)
		done.bodies[i] = Body(done.ids[i], size)
		return fill(ctx, doer, done.ids[i], done.bodies[i])
	})
	if err != nil {
		return Done{}, fmt.Errorf("complete %d ids to replay: %w", ids, err)
	}
	return done, nil
}

// Replays asks again for ids that are complete; every response is checked.
func Replays(doer contend.Doer, done Done) Job {
	check := new(Check)
	return Job{Check: check, Op: func(ctx context.Context, _, _ int) error {
		i := rand.IntN(len(done.ids))
		return again(ctx, doer, done.ids[i], done.bodies[i], check)
	}}
}

// fillPatience bounds how long one id may take to fill. Nothing is measured
// yet, so what is refused for the moment is sent again.
const fillPatience = 30 * time.Second

func fill(ctx context.Context, doer contend.Doer, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, fillPatience)
	defer cancel()
	for {
		_, _, err := doer.Do(ctx, id, func() ([]byte, error) { return body, nil })
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Each calls f for 0 … n-1 from a number of workers, and returns the first
// error, after which nothing new is begun.
func Each(n, workers int, f func(int) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && failed.Load() == nil; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if first := failed.Load(); first != nil {
		return *first
	}
	return nil
}

// Body makes a response of the given size that differs from id to id and
// compresses about as well as JSON does.
func Body(id string, size int) []byte {
	b := make([]byte, 0, size+64)
	for i := 0; len(b) < size; i++ {
		b = fmt.Appendf(b, `{"id":%q,"line":%d,"amount":%d},`, id, i, rand.IntN(1_000_000))
	}
	return b[:size]
}

// BodyOf reports whether a response was made by Body for the id.
func BodyOf(response []byte, id string) bool {
	return bytes.HasPrefix(response, fmt.Appendf(nil, `{"id":%q,`, id))
}
