package nemesis

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/redfence/redfence/chaos/internal/history"
)

var usual = Topology{Nodes: 5, Instances: 3}

func schedule(t interface{ Fatal(...any) }, preset string, seed uint64, duration time.Duration, topology Topology) []Step {
	steps, err := Schedule(preset, seed, duration, topology)
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

func TestScheduleIsDecidedByTheSeed(t *testing.T) {
	for _, preset := range Presets() {
		one := schedule(t, preset, 7, time.Minute, usual)
		if diff := cmp.Diff(one, schedule(t, preset, 7, time.Minute, usual)); diff != "" {
			t.Errorf("%s: the same seed gave another schedule:\n%s", preset, diff)
		}
		if cmp.Equal(one, schedule(t, preset, 8, time.Minute, usual)) {
			t.Errorf("%s: another seed gave the same schedule", preset)
		}
	}
	if _, err := Schedule("nonsense", 1, time.Minute, usual); err == nil || !strings.Contains(err.Error(), "quick") {
		t.Errorf("an unknown preset: %v", err)
	}
}

// mends says which action undoes which.
var mends = map[string]string{
	history.RestartNode: history.KillNode, history.ResumeNode: history.PauseNode,
	history.HealPostgres: history.CutPostgres, history.StartPostgres: history.KillPostgres, history.WakePostgres: history.StopPostgres,
	history.StartInstance: history.KillInstance, history.WakeInstance: history.StopInstance,
	history.HealRedis: history.CutRedis,
}

// passing actions mend themselves.
var passing = map[string]bool{history.FlushNode: true, history.LapseLocks: true, history.StallNode: true, history.DropReply: true}

func TestScheduleMendsWhatItBreaks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		preset := rapid.SampledFrom(Presets()).Draw(t, "preset")
		seed := rapid.Uint64().Draw(t, "seed")
		topology := Topology{Nodes: rapid.SampledFrom([]int{1, 3, 5, 7}).Draw(t, "nodes"), Instances: rapid.IntRange(1, 4).Draw(t, "instances")}
		duration := time.Duration(rapid.IntRange(30, 600).Draw(t, "seconds")) * time.Second
		broken := map[history.Action]bool{}
		total, last, most := 0, time.Duration(0), 0
		for _, step := range schedule(t, preset, seed, duration, topology) {
			if step.At < last || step.Node >= topology.Nodes || step.Instance >= topology.Instances {
				t.Fatalf("%+v after %v of %+v", step, last, topology)
			}
			last = step.At
			a := step.Action
			switch undone, heals := mends[a.Kind], mends[a.Kind] != ""; {
			case passing[a.Kind]:
			case heals:
				a.Kind = undone
				if !broken[a] {
					t.Fatalf("%+v mends what is not broken", step)
				}
				delete(broken, a)
			default:
				if a.Kind == history.HoldReplies || a.Kind == history.SlowRedis {
					a.Kind = history.CutRedis // mended by the same action
				}
				if broken[a] {
					t.Fatalf("%+v breaks what is broken", step)
				}
				broken[a] = true
			}
			dead := 0
			for a := range broken {
				if a.Kind == history.KillNode {
					dead++
				}
			}
			if most = max(most, dead); dead == topology.Nodes {
				total++
			}
		}
		if len(broken) != 0 || last > duration {
			t.Fatalf("broken at the end: %v; last step at %v of %v", broken, last, duration)
		}
		if KillsAll(preset) && total == 0 {
			t.Fatalf("preset %s killed at most %d nodes of %d at once", preset, most, topology.Nodes)
		}
	})
}

// cluster fails at the action named.
type cluster struct{ fail string }

func (c *cluster) Do(_ context.Context, a history.Action) (string, error) {
	if a.String() == c.fail {
		return "", errors.New("no")
	}
	return "seen", nil
}

func TestRunDoesEachStepAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		clock := func() time.Duration { return time.Since(began) - 5*time.Second }
		steps := []Step{
			{At: time.Second, Action: history.Action{Kind: history.KillNode, Node: 1}},
			{At: 3 * time.Second, Action: history.Action{Kind: history.RestartNode, Node: 1}},
			{At: 4 * time.Second, Action: history.Action{Kind: history.KillNode, Node: 0}},
		}
		var got []history.Fault
		err := Run(t.Context(), &cluster{fail: "kill-node 0"}, steps, clock, func(f history.Fault) { got = append(got, f) })
		if err == nil {
			t.Error("a fault that could not be done went unnoticed")
		}
		want := []history.Fault{
			{At: -4 * time.Second, Done: -4 * time.Second, Action: history.Action{Kind: history.KillNode, Node: 1}, Proof: "seen"},
			{At: -2 * time.Second, Done: -2 * time.Second, Action: history.Action{Kind: history.RestartNode, Node: 1}, Proof: "seen"},
			{At: -time.Second, Done: -time.Second, Action: history.Action{Kind: history.KillNode, Node: 0}, Err: "no"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	})
}
