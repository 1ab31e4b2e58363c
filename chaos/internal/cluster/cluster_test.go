package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redfence/redfence/chaos/internal/history"
	"github.com/redfence/redfence/chaos/internal/recorder"
	"github.com/redfence/redfence/internal/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a small cluster under a little load.
type rig struct {
	t       *testing.T
	cluster *Local
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if err := servers.Available(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := t.TempDir()
	began := time.Now()
	record, err := recorder.New(filepath.Join(dir, history.EffectsFile), func() time.Duration { return time.Since(began) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() })
	binary, err := Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	disk := 0
	if CanFillDisk() {
		disk = 64
	}
	c, err := StartLocal(t.Context(), binary, Options{
		Nodes: 3, Instances: 2, Recorder: record.URL(), Dir: dir, Policy: "hold", Lease: 2 * time.Second, SmallDisk: disk,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { load(ctx, c.Instances()) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t, c}
}

// load sends a fresh key to each instance every 50 ms.
func load(ctx context.Context, urls []string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	var group sync.WaitGroup
	defer group.Wait()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		for _, url := range urls {
			group.Go(func() {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/work", strings.NewReader("{}"))
				if err != nil {
					return
				}
				req.Header.Set("Idempotency-Key", fmt.Sprintf("key-%d-%s", i, url))
				if resp, err := client.Do(req); err == nil {
					_ = resp.Body.Close()
				}
			})
		}
		<-tick.C
	}
}

// do does an action that must be proven.
func (r *rig) do(a history.Action) {
	r.t.Helper()
	proof, err := r.cluster.Do(r.t.Context(), a)
	for try := 0; errors.Is(err, history.ErrMissed) && try < 3 && !a.Mends(); try++ {
		proof, err = r.cluster.Do(r.t.Context(), a)
	}
	if err != nil || proof == "" {
		r.t.Errorf("%s: proof %q, %v", a, proof, err)
	}
	r.t.Logf("%s: %s", a, proof)
}

// TestEveryFaultIsProven does each fault to a cluster at work, and mends it.
func TestEveryFaultIsProven(t *testing.T) {
	r := newRig(t)
	for _, kind := range []string{
		history.StallNode, history.EvictNode, history.LapseLocks, history.SlowNode, history.PauseNode, history.RebootNode, history.FlushNode, history.KillNode,
		history.CutRedis, history.HoldReplies, history.HoldRequests, history.SlowRedis, history.DropRedisReply,
		history.CutPostgres, history.HoldPostgresReplies, history.DropReply,
		history.LockTable, history.LockRows, history.StopPostgres, history.RefuseInstances, history.KillPostgres,
		history.StopInstance, history.SplitNodes, history.DrainInstance, history.KillInstance,
	} {
		r.breakAndMend(kind)
	}
	if r.cluster.disk != nil {
		r.breakAndMend(history.FillDisk)
	}
	if err := r.cluster.Health(); err != nil {
		t.Error(err)
	}
}

// breakAndMend gives the load time to meet the fault, and to be as before.
func (r *rig) breakAndMend(kind string) {
	r.t.Helper()
	a := history.Action{Kind: kind, Node: 1, Instance: 1}
	if kind == history.LockRows {
		r.slowRow()
	}
	r.do(a)
	if a.Kind = a.MendedBy(); a.Kind == "" {
		return
	}
	time.Sleep(300 * time.Millisecond)
	r.do(a)
	time.Sleep(300 * time.Millisecond)
}

// slowRow has a key in progress for long enough to be locked.
func (r *rig) slowRow() {
	r.t.Helper()
	url := r.cluster.Instances()[0]
	ctx, cancel := context.WithTimeout(r.t.Context(), 200*time.Millisecond) // the handler goes on
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/work", strings.NewReader("{}"))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Idempotency-Key", "slow")
	req.Header.Set("Chaos-Work", "8s") // renewed meanwhile, which waits for the lock
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
}
