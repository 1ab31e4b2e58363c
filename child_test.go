package redfence

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/redfence/redfence/fallback"
)

// childVariable tells the test binary to be an instance in a process of its
// own, which the test can kill or stop.
const childVariable = "REDFENCE_TEST_CHILD"

// childSpec is what such a process is asked to do.
type childSpec struct {
	Nodes    []string
	Postgres string
	ID       string
	Policy   Policy
	// Die: the handler kills its own process.
	Die bool
	// Stream: the handler says that its response cannot be recorded.
	Stream bool
}

// A child runs one Do; its handler prints a line and then blocks until its
// context ends.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func (c *cluster) child(t *testing.T, spec childSpec) *child {
	t.Helper()
	for _, n := range c.nodes {
		spec.Nodes = append(spec.Nodes, n.Addr())
	}
	spec.Postgres = c.postgres.URL()
	text, err := json.Marshal(spec)
	must(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	ch := &child{cmd: cmd, lines: bufio.NewScanner(out)}
	t.Cleanup(ch.kill)
	return ch
}

// line returns the child's next line; empty when it has ended.
func (ch *child) line() string {
	if !ch.lines.Scan() {
		return ""
	}
	return ch.lines.Text()
}

func (ch *child) kill() {
	_ = ch.cmd.Process.Kill()
	_ = ch.cmd.Wait()
}

func runChild(text string) {
	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Println("error:", err)
		os.Exit(2)
	}
	go func() { // a child of a dead test ends
		time.Sleep(2 * time.Minute)
		os.Exit(3)
	}()
	if err := spec.run(context.Background()); err != nil {
		fmt.Println("error:", err)
	}
}

func (spec childSpec) run(ctx context.Context) error {
	pool, err := pgxpool.New(ctx, spec.Postgres)
	if err != nil {
		return err
	}
	ledger, err := fallback.Open(ctx, pool, fallback.Config{Migrate: true})
	if err != nil {
		return err
	}
	cfg := Config{Ledger: ledger, Policy: spec.Policy}
	for _, addr := range spec.Nodes {
		cfg.Nodes = append(cfg.Nodes, redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1}))
	}
	engine, err := New(ctx, cfg)
	if err != nil {
		return err
	}
	res, err := engine.Do(ctx, Request{ID: spec.ID}, func(ctx context.Context, ex *Execution) (Response, error) {
		fmt.Println("started", ex.Fence(), ex.Attempt())
		if spec.Die {
			os.Exit(1)
		}
		if spec.Stream {
			if err := ex.Unreplayable(ctx, 200, "it streams"); err != nil {
				return Response{}, err
			}
			fmt.Println("streams")
		}
		<-ctx.Done()
		fmt.Println("cancelled", context.Cause(ctx))
		return Response{Body: []byte("stale")}, nil
	})
	if err == nil && !res.Durable {
		err = errors.New("not durable")
	}
	fmt.Println("result", res.Outcome, string(res.Response.Body), err)
	return nil
}

func TestI12KilledInTheHandlerHold(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, nil)
	dead := c.child(t, childSpec{ID: "held", Policy: testPolicy()})
	if line := dead.line(); line != "started 1 1" {
		t.Fatalf("child: %q", line)
	}
	dead.kill()
	var work counter
	// Waits for the owner, which is dead, and learns it when the lease lapses.
	_, err := in.Do(t.Context(), Request{ID: "held"}, work.handle)
	wantErr(t, err, ErrUnknownOutcome)
	_, err = in.Do(t.Context(), Request{ID: "held", Policy: noWait(testPolicy())}, work.handle)
	wantErr(t, err, ErrUnknownOutcome)
	work.want(t, 0)

	// An operator finds out that nothing happened.
	must(t, in.Resolve(t.Context(), Key{ID: "held"}, Resolution{Release: true, Force: true, Who: "test", Why: "no effect"}))
	res, err := in.Do(t.Context(), Request{ID: "held"}, work.handle)
	wantResult(t, res, err, Executed, "run 1")
}

func TestI12KilledInTheHandlerRetry(t *testing.T) {
	c := newCluster(t)
	in := c.start(t, func(cfg *Config) { cfg.Policy = retryPolicy() })
	dead := c.child(t, childSpec{ID: "retried", Policy: retryPolicy()})
	if line := dead.line(); line != "started 1 1" {
		t.Fatalf("child: %q", line)
	}
	dead.kill()
	var work counter
	var fence int64
	var attempt int
	res, err := in.Do(t.Context(), Request{ID: "retried"}, func(ctx context.Context, ex *Execution) (Response, error) {
		fence, attempt = ex.Fence(), ex.Attempt()
		return work.handle(ctx, ex)
	})
	wantResult(t, res, err, Executed, "run 1")
	if fence <= 1 || attempt > 2 {
		t.Errorf("fence %d, attempt %d; want a higher fence and at most attempt 2", fence, attempt)
	}
	res, err = in.Do(t.Context(), Request{ID: "retried"}, work.handle)
	wantResult(t, res, err, Replayed, "run 1")
	work.want(t, 1)
}
