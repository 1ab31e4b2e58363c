package instance

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/redfencehttp"
)

// The accounts that transfers move money between.
const (
	AccountCount   = 8
	OpeningBalance = 1000
)

// AccountTables makes the accounts, and the log of transfers, in which a key
// may stand more than once: what should not happen must be able to.
var AccountTables = fmt.Sprintf(`
CREATE TABLE IF NOT EXISTS chaos_accounts (id int PRIMARY KEY, balance bigint NOT NULL);
INSERT INTO chaos_accounts SELECT generate_series(0, %d), %d ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS chaos_transfers (key text NOT NULL, execution text NOT NULL, source int NOT NULL, target int NOT NULL, amount bigint NOT NULL);
`, AccountCount-1, OpeningBalance)

// transferLimit bounds one transfer; it is the lease of its claim too, so a
// dead owner is followed after it.
const transferLimit = 3 * time.Second

// transfers serves DoTx: two accounts, one row of the log and the response
// commit together.
type transfers struct{ engine *redfence.Engine }

func (t *transfers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get("Idempotency-Key")
	sum := sha256.Sum256([]byte(key))
	m := movement{key: key, execution: rand.Text()}
	m.source, m.target = int(sum[0])%AccountCount, int(sum[1])%AccountCount
	m.amount = int64(binary.BigEndian.Uint16(sum[2:]) % 100)
	policy := redfence.Policy{Lease: transferLimit, MaxProcessing: transferLimit, Wait: redfence.NoWait}
	request := redfence.Request{ID: key, Fingerprint: redfence.Fingerprint{Version: 1, Sum: sum[:]}, Policy: &policy}
	result, err := t.engine.DoTx(context.WithoutCancel(r.Context()), request, m.do)
	if err != nil {
		http.Error(w, err.Error(), transferStatus(err))
		return
	}
	w.Header().Set(redfencehttp.FenceHeader, strconv.FormatInt(result.Fence, 10))
	w.Header().Set(redfencehttp.DurableHeader, strconv.FormatBool(result.Durable))
	w.Header().Set(redfencehttp.ReplayedHeader, strconv.FormatBool(result.Outcome == redfence.Replayed))
	_, _ = w.Write(result.Response.Body) // the client may be gone
}

// transferStatus tells a key at work, or of another request, from what may be
// tried again.
func transferStatus(err error) int {
	switch {
	case errors.Is(err, redfence.ErrInProgress):
		return http.StatusConflict
	case errors.Is(err, redfence.ErrMismatch):
		return http.StatusUnprocessableEntity
	}
	return http.StatusServiceUnavailable
}

// movement is one transfer.
type movement struct {
	key, execution string
	source, target int
	amount         int64
}

func (m movement) do(ctx context.Context, tx pgx.Tx, _ *redfence.Execution) (redfence.Response, error) {
	const move = "UPDATE chaos_accounts SET balance = balance + $2 WHERE id = $1"
	first, second, amount := m.source, m.target, -m.amount
	if first > second { // one order for all, so that they do not wait for one another in a circle
		first, second, amount = second, first, m.amount
	}
	if _, err := tx.Exec(ctx, move, first, amount); err != nil {
		return redfence.Response{}, err
	}
	if _, err := tx.Exec(ctx, move, second, -amount); err != nil {
		return redfence.Response{}, err
	}
	const log = "INSERT INTO chaos_transfers VALUES ($1, $2, $3, $4, $5)"
	if _, err := tx.Exec(ctx, log, m.key, m.execution, m.source, m.target, m.amount); err != nil {
		return redfence.Response{}, err
	}
	body, err := json.Marshal(answer{Key: m.key, Execution: m.execution})
	return redfence.Response{Status: http.StatusOK, Body: body}, err
}
