package fallback_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// plainClaim is what a ledger without group commit sends: one durable
// statement for each claim, over a pool of connections.
const plainClaim = `INSERT INTO plain AS k (digest, state, token, lease_until) VALUES ($1, 'processing', $2, now() + interval '1 minute')
ON CONFLICT (digest) DO UPDATE SET token = excluded.token WHERE k.state = 'released' RETURNING token`

const plainComplete = `UPDATE plain SET state = 'completed', response = $3 WHERE digest = $1 AND token = $2`

// BenchmarkLedger compares claim + completion through the ledger with the same
// work in one statement per call, in one run on one durable server. Each
// iteration is one key.
func BenchmarkLedger(b *testing.B) {
	server, err := testenv.StartPostgres(b.Context(), testenv.PostgresOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	pool := newPool(b, server.URL(), func(c *pgxpool.Config) { c.MaxConns = 32 })
	ledger := openLedger(b, pool)
	if _, err := pool.Exec(b.Context(), `CREATE TABLE plain (digest bytea PRIMARY KEY, state text, token bytea, lease_until timestamptz, response bytea)`); err != nil {
		b.Fatal(err)
	}
	body := []byte(strings.Repeat("r", 300))
	policy := fallback.Policy{Lease: time.Minute, MaxProcessing: time.Minute, Retention: time.Hour}
	run := fmt.Sprint(time.Now().UnixNano())
	var seq atomic.Int64
	next := func() fallback.ClaimRequest {
		k := fallback.Key{Namespace: "do", Scope: run, ID: fmt.Sprint(seq.Add(1))}
		return fallback.ClaimRequest{Key: k, Digest: k.Digest(), Token: fallback.NewToken(), Owner: "bench", Policy: policy}
	}
	for _, callers := range []int{1, 128, 512} {
		b.Run(fmt.Sprintf("batched/claim+complete/callers=%d", callers), func(b *testing.B) {
			spread(b, callers, func(ctx context.Context) error {
				r := next()
				v, err := ledger.Claim(ctx, r)
				if err != nil {
					return err
				}
				_, err = ledger.Complete(ctx, fallback.Completion{
					Ref:    fallback.Ref{Digest: r.Digest, Token: r.Token, Fence: v.Granted.Fence},
					Status: 200, Response: body,
				})
				return err
			})
		})
		b.Run(fmt.Sprintf("batched/claim/callers=%d", callers), func(b *testing.B) {
			spread(b, callers, func(ctx context.Context) error {
				_, err := ledger.Claim(ctx, next())
				return err
			})
		})
		b.Run(fmt.Sprintf("plain/claim+complete/callers=%d", callers), func(b *testing.B) {
			spread(b, callers, func(ctx context.Context) error {
				r := next()
				if _, err := pool.Exec(ctx, plainClaim, r.Digest[:], r.Token[:]); err != nil {
					return err
				}
				_, err := pool.Exec(ctx, plainComplete, r.Digest[:], r.Token[:], body)
				return err
			})
		})
		b.Run(fmt.Sprintf("plain/claim/callers=%d", callers), func(b *testing.B) {
			spread(b, callers, func(ctx context.Context) error {
				r := next()
				_, err := pool.Exec(ctx, plainClaim, r.Digest[:], r.Token[:])
				return err
			})
		})
	}
}

// spread runs b.N calls from a number of callers and reports calls per second.
func spread(b *testing.B, callers int, call func(context.Context) error) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := call(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkBatch shows what batches cost: each iteration is so many claims at
// once, and then their completions.
func BenchmarkBatch(b *testing.B) {
	server, err := testenv.StartPostgres(b.Context(), testenv.PostgresOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	ledger := openLedger(b, newPool(b, server.URL()))
	for _, callers := range []int{1, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				wave(b, ledger, callers)
			}
		})
	}
}

// wave claims so many keys at once, and then completes them.
func wave(b *testing.B, l fallback.Ledger, callers int) {
	completions := make([]fallback.Completion, callers)
	body := make([]byte, 300)
	at := func(do func(i int) error) {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				if err := do(i); err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	at(func(i int) error {
		r := newRequest(holdPolicy())
		v, err := l.Claim(b.Context(), r)
		if err == nil {
			completions[i] = fallback.Completion{Ref: refOf(r, v.Granted.Fence), Status: 200, Response: body}
		}
		return err
	})
	at(func(i int) error {
		_, err := l.Complete(b.Context(), completions[i])
		return err
	})
}

// BenchmarkBodies shows whether large responses in the table slow claims of
// fresh keys down: the same claims beside rows with small and with large
// bodies, which are stored out of line.
func BenchmarkBodies(b *testing.B) {
	server, err := testenv.StartPostgres(b.Context(), testenv.PostgresOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	pool := newPool(b, server.URL())
	for _, size := range []int{300, 16 << 10, 300, 16 << 10} {
		schema := fmt.Sprintf("bodies_%d", size)
		ledger := openLedger(b, pool, func(c *fallback.Config) { c.Schema = schema })
		fill(b, ledger, 2000, size)
		b.Run(fmt.Sprintf("bodies=%d", size), func(b *testing.B) {
			spread(b, 128, func(ctx context.Context) error {
				_, err := ledger.Claim(ctx, newRequest(holdPolicy()))
				return err
			})
		})
	}
}

// BenchmarkGrowth shows claim + completion beside few and beside many rows.
func BenchmarkGrowth(b *testing.B) {
	server, err := testenv.StartPostgres(b.Context(), testenv.PostgresOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { server.Close() })
	pool := newPool(b, server.URL())
	for _, rows := range []int{1_000, 100_000} {
		ledger := openLedger(b, pool, func(c *fallback.Config) { c.Schema = fmt.Sprintf("rows_%d", rows) })
		fill(b, ledger, rows, 300)
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			spread(b, 128, func(ctx context.Context) error { return claimAndComplete(ctx, ledger, 300) })
		})
	}
}

func claimAndComplete(ctx context.Context, l fallback.Ledger, size int) error {
	r := newRequest(holdPolicy())
	v, err := l.Claim(ctx, r)
	if err != nil {
		return err
	}
	_, err = l.Complete(ctx, fallback.Completion{Ref: refOf(r, v.Granted.Fence), Status: 200, Response: make([]byte, size)})
	return err
}

// fill completes a number of keys.
func fill(b *testing.B, l fallback.Ledger, rows, size int) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(rows))
	var wg sync.WaitGroup
	for range 256 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := claimAndComplete(b.Context(), l, size); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}
