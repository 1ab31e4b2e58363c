package nemesis

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/redfence/redfence/chaos/internal/history"
)

func TestScheduleIsDecidedByTheSeed(t *testing.T) {
	one := Schedule(7, time.Minute, 5)
	if diff := cmp.Diff(one, Schedule(7, time.Minute, 5)); diff != "" {
		t.Errorf("the same seed gave another schedule:\n%s", diff)
	}
	if cmp.Equal(one, Schedule(8, time.Minute, 5)) {
		t.Error("another seed gave the same schedule")
	}
}

func TestScheduleIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		nodes := rapid.SampledFrom([]int{1, 3, 5, 7}).Draw(t, "nodes")
		duration := time.Duration(rapid.IntRange(20, 600).Draw(t, "seconds")) * time.Second
		up := nodes
		down := map[int]bool{}
		total, last := 0, time.Duration(0)
		for _, step := range Schedule(seed, duration, nodes) {
			kill := step.Action == history.KillNode
			if down[step.Node] == kill {
				t.Fatalf("%+v when down is %v", step, down[step.Node])
			}
			down[step.Node] = kill
			if kill {
				up--
			} else {
				up++
			}
			if up == 0 {
				total++
			}
			if step.At < last {
				t.Fatalf("%+v comes before %v", step, last)
			}
			last = step.At
		}
		if up != nodes || total == 0 || last > duration {
			t.Fatalf("%d of %d nodes are up at the end, %d outages of all, last step at %v of %v", up, nodes, total, last, duration)
		}
	})
}

// cluster fails at the action named.
type cluster struct {
	did  []string
	fail string
}

func (c *cluster) do(name string, node int) (string, error) {
	name = fmt.Sprint(name, node)
	if name == c.fail {
		return "", errors.New("no")
	}
	c.did = append(c.did, name)
	return "seen", nil
}

func (c *cluster) KillNode(_ context.Context, n int) (string, error)    { return c.do("kill", n) }
func (c *cluster) RestartNode(_ context.Context, n int) (string, error) { return c.do("restart", n) }

func TestRunDoesEachStepAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		clock := func() time.Duration { return time.Since(began) - 5*time.Second }
		steps := []Step{
			{At: time.Second, Action: history.KillNode, Node: 1},
			{At: 3 * time.Second, Action: history.RestartNode, Node: 1},
			{At: 4 * time.Second, Action: history.KillNode, Node: 0},
		}
		var got []history.Fault
		err := Run(t.Context(), &cluster{fail: "kill0"}, steps, clock, func(f history.Fault) { got = append(got, f) })
		if err == nil {
			t.Error("a fault that could not be done went unnoticed")
		}
		want := []history.Fault{
			{At: -4 * time.Second, Done: -4 * time.Second, Action: history.KillNode, Node: 1, Proof: "seen"},
			{At: -2 * time.Second, Done: -2 * time.Second, Action: history.RestartNode, Node: 1, Proof: "seen"},
			{At: -time.Second, Done: -time.Second, Action: history.KillNode, Node: 0, Err: "no"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	})
}
