package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/redfence/redfence/fallback"
)

func exampleRequest(id string) fallback.ClaimRequest {
	key := fallback.Key{Namespace: "do", Scope: "acme", ID: id}
	return fallback.ClaimRequest{
		Key: key, Digest: key.Digest(), Token: fallback.NewToken(), Owner: "example",
		Policy: fallback.Policy{
			Lease: time.Minute, MaxProcessing: 10 * time.Minute, Retention: 24 * time.Hour,
		},
	}
}

// A claim is the right to run the handler for a key. Who does not get it is
// shown what stands in the way.
func ExampleMemory() {
	ctx := context.Background()
	ledger := fallback.NewMemory()
	defer ledger.Close()

	first := exampleRequest("tx-1")
	v, _ := ledger.Claim(ctx, first)
	mine := fallback.Ref{Digest: first.Digest, Token: first.Token, Fence: v.Granted.Fence}
	fmt.Println("granted under fence", mine.Fence)

	v, _ = ledger.Claim(ctx, exampleRequest("tx-1"))
	fmt.Println("a duplicate finds it", v.Row.State)

	ledger.Complete(ctx, fallback.Completion{Ref: mine, Status: 201, Response: []byte("order 7")})
	v, _ = ledger.Claim(ctx, exampleRequest("tx-1"))
	fmt.Printf("and later %v: %s\n", v.Row.State, v.Row.Response)
	// Output:
	// granted under fence 1
	// a duplicate finds it processing
	// and later completed: order 7
}

// What an owner does needs its token and its fence in the row.
func ExampleMemory_Complete() {
	ctx := context.Background()
	ledger := fallback.NewMemory()
	defer ledger.Close()

	first := exampleRequest("tx-1")
	v, _ := ledger.Claim(ctx, first)
	stale := fallback.Ref{Digest: first.Digest, Token: first.Token, Fence: v.Granted.Fence}
	ledger.Release(ctx, stale, "not started")

	ledger.Claim(ctx, exampleRequest("tx-1")) // another attempt
	_, err := ledger.Complete(ctx, fallback.Completion{Ref: stale, Status: 200})
	fmt.Println(errors.Is(err, fallback.ErrRefused))
	// Output:
	// true
}

// A handler that panicked leaves a key whose outcome is unknown. An operator
// finds out what happened and says so, under a new fence.
func ExampleMemory_Decide() {
	ctx := context.Background()
	ledger := fallback.NewMemory()
	defer ledger.Close()

	r := exampleRequest("tx-1")
	v, _ := ledger.Claim(ctx, r)
	ledger.Abandon(ctx, fallback.Ref{Digest: r.Digest, Token: r.Token, Fence: v.Granted.Fence}, "panic")

	row, _ := ledger.Decide(ctx, fallback.Decision{
		Digest: r.Digest, Fence: v.Granted.Fence, State: fallback.Completed,
		Status: 201, Response: []byte("order 7"), Who: "ann", Why: "the order is in the books",
	})
	fmt.Println(row.State, "by", "ann", "under fence", row.Fence)
	// Output:
	// completed by ann under fence 2
}

// The ledger in PostgreSQL, on a pool that the application uses as well.
func ExampleOpen() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	ledger, err := fallback.Open(ctx, pool, fallback.Config{}) // run `redfence migrate` before
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ledger.Close()
}

// The least privileged role that a ledger can work with.
func ExamplePrintGrants() {
	var out strings.Builder
	if err := fallback.PrintGrants(&out, "redfence", "app"); err != nil {
		fmt.Println(err)
	}
	fmt.Print(out.String())
	// Output:
	// GRANT USAGE ON SCHEMA "redfence" TO "app";
	// GRANT SELECT, INSERT, UPDATE, DELETE ON "redfence".idempotency_keys TO "app";
	// GRANT SELECT, UPDATE ON "redfence".idempotency_meta TO "app";
	// GRANT SELECT, INSERT ON "redfence".idempotency_audit TO "app";
	// GRANT USAGE, UPDATE ON SEQUENCE "redfence".idempotency_fence TO "app";
}
