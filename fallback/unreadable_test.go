package fallback_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// TestUnreadableRow: the response of one row is damaged on disk. Reads, claims
// and resends of that key fail, those of the keys in the same batch do not.
func TestUnreadableRow(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t).URL())
	l := openLedger(t, pool, func(c *fallback.Config) { c.Listen.Off = true })
	var all []fallback.Completion
	var requests []fallback.ClaimRequest
	for range 9 {
		r := newRequest(holdPolicy())
		c := fallback.Completion{Ref: mustClaim(t, l, r), Response: bytes.Repeat([]byte("x"), 5000)}
		if _, err := l.Complete(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		all, requests = append(all, c), append(requests, r)
	}
	bad := all[4].Digest
	var toast string
	err := pool.QueryRow(t.Context(), `SELECT c.reltoastrelid::regclass::text FROM pg_class AS c WHERE c.oid = 'idempotency_keys'::regclass`).Scan(&toast)
	if err != nil {
		t.Fatal(err)
	}
	// Chunks are numbered in the order in which the responses were written.
	exec(t, pool, fmt.Sprintf(`CREATE EXTENSION pg_surgery;
		CREATE TABLE chunks AS SELECT array_agg(ctid) AS dead FROM %[1]s
			WHERE chunk_id = (SELECT DISTINCT chunk_id FROM %[1]s ORDER BY 1 OFFSET 4 LIMIT 1);
		SELECT heap_force_kill('%[1]s'::regclass, dead) FROM chunks`, toast))

	calls := map[string]func(i int) error{
		"Read": func(i int) error { _, err := l.Read(t.Context(), all[i].Digest); return err },
		"Claim": func(i int) error {
			r := requests[i]
			r.Token = fallback.NewToken()
			v, err := l.Claim(t.Context(), r)
			if err == nil && (v.Row == nil || len(v.Row.Response) != 5000) {
				t.Errorf("Claim: %+v", v)
			}
			return err
		},
		"Complete": func(i int) error { _, err := l.Complete(t.Context(), all[i]); return err },
		"Confirm":  func(i int) error { _, err := l.Confirm(t.Context(), all[i].Digest); return err },
	}
	for what, call := range calls { // the first of the calls goes alone, the others are a batch
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() {
				if err := call(i); (err != nil) != (all[i].Digest == bad) {
					t.Errorf("%s of row %d, where row 4 is damaged: %v", what, i, err)
				}
			})
		}
		wg.Wait()
	}
}
