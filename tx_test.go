package redfence

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/redfence/redfence/fallback"
	"github.com/redfence/redfence/internal/testenv"
)

// accounts are the effect of the transactions: rows in the ledger's database.
type accounts struct{ conn *pgx.Conn }

func newAccounts(t *testing.T, c *cluster) *accounts {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.postgres.URL())
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), "CREATE TABLE account (id text PRIMARY KEY, n int NOT NULL)")
	must(t, err)
	return &accounts{conn}
}

func (a *accounts) want(t *testing.T, effects int) {
	t.Helper()
	var n int
	must(t, a.conn.QueryRow(t.Context(), "SELECT coalesce(sum(n), 0) FROM account").Scan(&n))
	if n != effects {
		t.Errorf("%d effects, want %d", n, effects)
	}
}

func add(ctx context.Context, tx pgx.Tx, id string) error {
	_, err := tx.Exec(ctx, "INSERT INTO account VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET n = account.n + 1", id)
	return err
}

func transfer(ctx context.Context, tx pgx.Tx, ex *Execution) (Response, error) {
	return Response{Body: []byte("done")}, add(ctx, tx, ex.Key().ID)
}

func TestDoTxCommitsEffectAndResponseTogether(t *testing.T) {
	c := newCluster(t)
	in, accounts := c.start(t, nil), newAccounts(t, c)
	for _, outcome := range []Outcome{Executed, Replayed} {
		res, err := in.DoTx(t.Context(), Request{ID: "k"}, transfer)
		wantResult(t, res, err, outcome, "done")
		accounts.want(t, 1)
	}
	boom := errors.New("boom")
	_, err := in.DoTx(t.Context(), Request{ID: "failed"}, func(ctx context.Context, tx pgx.Tx, ex *Execution) (Response, error) {
		must(t, add(ctx, tx, "failed"))
		return Response{}, boom
	})
	wantErr(t, err, boom)
	accounts.want(t, 1)
	res, err := in.DoTx(t.Context(), Request{ID: "failed"}, transfer)
	wantResult(t, res, err, Executed, "done")
	accounts.want(t, 2)
}

func TestDoTxDuplicatesWaitAtTheEngine(t *testing.T) {
	c := newCluster(t)
	engines, accounts := []*instance{c.start(t, nil), c.start(t, nil)}, newAccounts(t, c)
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			res, err := engines[i%2].DoTx(t.Context(), Request{ID: fmt.Sprint(i % 3)}, transfer)
			if err != nil || string(res.Response.Body) != "done" {
				t.Errorf("%q %v", res.Response.Body, err)
			}
		})
	}
	group.Wait()
	accounts.want(t, 3)
}

// TestDoTxThroughAPooler: in transaction mode, a transaction and its completion
// keep the server process that they began with, while others change theirs.
func TestDoTxThroughAPooler(t *testing.T) {
	c := newCluster(t)
	url, accounts := testenv.Pooler(t, c.postgres), newAccounts(t, c)
	var engines []*instance
	for range 2 {
		engines = append(engines, c.start(t, func(cfg *Config) { cfg.Ledger = openLedger(t, url, new(net.Dialer).DialContext) }))
	}
	var group sync.WaitGroup
	for i := range 30 {
		group.Go(func() {
			res, err := engines[i%2].DoTx(t.Context(), Request{ID: fmt.Sprint(i % 10)}, transfer)
			if err != nil || string(res.Response.Body) != "done" || !res.Durable {
				t.Errorf("%+v %v", res, err)
			}
		})
	}
	group.Wait()
	accounts.want(t, 10)
	boom := errors.New("boom")
	_, err := engines[0].DoTx(t.Context(), Request{ID: "failed"}, func(ctx context.Context, tx pgx.Tx, _ *Execution) (Response, error) {
		return Response{}, errors.Join(boom, add(ctx, tx, "failed"))
	})
	wantErr(t, err, boom)
	accounts.want(t, 10)
}

func TestDoTxRetriesSerializationFailures(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.Policy.Tx.IsoLevel = pgx.Serializable })
	accounts := newAccounts(t, c)
	const callers = 8
	var runs atomic.Int64
	var group, together sync.WaitGroup
	together.Add(callers)
	for i := range callers {
		group.Go(func() {
			first := true
			res, err := in.DoTx(t.Context(), Request{ID: fmt.Sprint(i)}, func(ctx context.Context, tx pgx.Tx, ex *Execution) (Response, error) {
				runs.Add(1)
				var n int // takes the snapshot
				must(t, tx.QueryRow(ctx, "SELECT count(*) FROM account").Scan(&n))
				if first { // all see the same world
					first = false
					together.Done()
					together.Wait()
				}
				return Response{Body: []byte("done")}, add(ctx, tx, "one row for all")
			})
			if err != nil || !res.Durable {
				t.Errorf("%v", err)
			}
		})
	}
	group.Wait()
	accounts.want(t, callers)
	if runs.Load() <= callers {
		t.Errorf("%d runs: nothing was retried", runs.Load())
	}
}

func TestI43DoTxLongerThanTheRenewalInterval(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.Policy.Tx.IsoLevel = pgx.RepeatableRead })
	accounts := newAccounts(t, c)
	res, err := in.DoTx(t.Context(), Request{ID: "long"}, func(ctx context.Context, tx pgx.Tx, ex *Execution) (Response, error) {
		var n int // takes the snapshot
		must(t, tx.QueryRow(ctx, "SELECT count(*) FROM account").Scan(&n))
		must(t, sleep(ctx, 3*testLease))
		return transfer(ctx, tx, ex)
	})
	wantResult(t, res, err, Executed, "done")
	accounts.want(t, 1)
}

// lostCommits makes the first COMMIT of a ledger end without its reply.
type lostCommits struct {
	fallback.TxLedger
	lose func(pgx.Tx) // what becomes of it
	once sync.Once
}

func (l *lostCommits) BeginTx(ctx context.Context, o pgx.TxOptions, idle time.Duration) (pgx.Tx, error) {
	tx, err := l.TxLedger.BeginTx(ctx, o, idle)
	return &lostCommit{Tx: tx, of: l}, err
}

type lostCommit struct {
	pgx.Tx
	of *lostCommits
}

func (l *lostCommit) Commit(ctx context.Context) error {
	lost := false
	l.of.once.Do(func() { lost = true; l.of.lose(l.Tx) })
	if lost {
		return errCut
	}
	return l.Tx.Commit(ctx)
}

func TestI42LostCommit(t *testing.T) {
	ctx := context.Background()
	for name, lose := range map[string]func(pgx.Tx){
		"applied":     func(tx pgx.Tx) { _ = tx.Commit(ctx) },
		"rolled back": func(tx pgx.Tx) { _ = tx.Rollback(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			in := c.start(t, func(cfg *Config) {
				cfg.Ledger = &lostCommits{TxLedger: cfg.Ledger.(*faultyLedger).Postgres, lose: lose}
			})
			accounts := newAccounts(t, c)
			res, err := in.DoTx(t.Context(), Request{ID: "k"}, transfer)
			wantResult(t, res, err, Executed, "done")
			accounts.want(t, 1)
		})
	}
	t.Run("the ledger is unreachable", func(t *testing.T) {
		c := newCluster(t)
		cut := make(chan *instance, 1)
		in := c.start(t, func(cfg *Config) {
			cfg.LedgerTimeout = testLease
			cfg.Ledger = &lostCommits{TxLedger: cfg.Ledger.(*faultyLedger).Postgres, lose: func(tx pgx.Tx) {
				_ = tx.Commit(ctx)
				(<-cut).pg.Cut()
			}}
		})
		cut <- in
		accounts := newAccounts(t, c)
		_, err := in.DoTx(t.Context(), Request{ID: "k"}, transfer)
		wantErr(t, err, ErrUnknownOutcome)
		in.pg.Heal()
		eventually(t, "a later call reads the row", func() bool {
			res, err := in.DoTx(t.Context(), Request{ID: "k"}, transfer)
			return err == nil && res.Outcome == Replayed
		})
		accounts.want(t, 1)
	})
}

// The reply of a COMMIT is lost and the COMMIT lands later: the row is asked,
// and it answers only when that transaction has ended. (Package fallback shows
// what happens to a function that runs again before that.)
func TestI54CommitThatLandsLate(t *testing.T) {
	c := newCluster(t)
	landed := make(chan struct{})
	in := c.start(t, func(cfg *Config) {
		cfg.Ledger = &lostCommits{TxLedger: cfg.Ledger.(*faultyLedger).Postgres, lose: func(tx pgx.Tx) {
			time.AfterFunc(2*testLease, func() {
				_ = tx.Commit(context.Background())
				close(landed)
			})
		}}
	})
	accounts := newAccounts(t, c)
	var runs atomic.Int64
	res, err := in.DoTx(t.Context(), Request{ID: "k"}, func(ctx context.Context, tx pgx.Tx, ex *Execution) (Response, error) {
		n := runs.Add(1)
		return Response{Body: fmt.Appendf(nil, "run %d", n)}, add(ctx, tx, fmt.Sprint("run ", n))
	})
	<-landed
	wantResult(t, res, err, Executed, "run 1")
	accounts.want(t, 1)
}

func TestDoTxNeedsPostgres(t *testing.T) {
	engine := newMemoryEngine(t, nil)
	_, err := engine.DoTx(t.Context(), Request{ID: "k"}, transfer)
	wantErr(t, err, ErrInvalid)
}
