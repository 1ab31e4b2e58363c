package nemesis

import (
	"context"
	"errors"
	"fmt"
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
	steps, err := Plan{Preset: preset, Seed: seed, Duration: duration, Topology: topology}.Steps()
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
	if _, err := (Plan{Preset: "nonsense", Topology: usual}).Steps(); err == nil || !strings.Contains(err.Error(), "quick") {
		t.Errorf("an unknown preset: %v", err)
	}
	if _, err := (Plan{Preset: "quick", Only: []string{"nonsense"}, Topology: usual}).Steps(); err == nil || !strings.Contains(err.Error(), "fill-disk") {
		t.Errorf("an unknown fault: %v", err)
	}
}

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
			mended := a
			mended.Kind = a.MendedBy()
			switch {
			case a.Mends():
				if !broken[a] {
					t.Fatalf("%+v mends what is not broken", step)
				}
				delete(broken, a)
			case mended.Kind == "": // passes by itself
			case broken[mended]:
				t.Fatalf("%+v breaks what is broken", step)
			default:
				broken[mended] = true
			}
			dead := 0
			for a := range broken {
				if a.Kind == history.RestartNode {
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
		if (Plan{Preset: preset}).KillsAll() && total == 0 {
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

func TestOnlyAndKeepChooseEpisodes(t *testing.T) {
	p := Plan{Preset: "standard", Only: []string{"flush-nodes", "cut-redis"}, Seed: 4, Duration: time.Minute, Topology: usual}
	all, err := p.Episodes()
	if err != nil || len(all) < 4 {
		t.Fatalf("%d episodes, %v", len(all), err)
	}
	for _, e := range all {
		if e.Name != "flush-nodes" && e.Name != "cut-redis" {
			t.Errorf("episode %s", e.Name)
		}
	}
	p.Keep = []int{1, 3}
	kept, err := p.Episodes()
	if err != nil || len(kept) != 2 {
		t.Fatalf("%d episodes kept, %v", len(kept), err)
	}
	for i, from := range []int{1, 3} {
		if kept[i].Name != all[from].Name || len(kept[i].Steps) != len(all[from].Steps) {
			t.Errorf("kept %+v, want %+v", kept[i], all[from])
		}
	}
	if kept[0].Steps[0].At != all[0].Steps[0].At {
		t.Errorf("what is left begins at %v, want %v", kept[0].Steps[0].At, all[0].Steps[0].At)
	}
	if gap := kept[1].Steps[0].At - kept[0].Steps[len(kept[0].Steps)-1].At; gap <= 0 || gap > maxOutage+maxCalm {
		t.Errorf("%v between the episodes that are left", gap)
	}
}

func TestPartsThatNeedOneAnotherAreNotBrokenTogether(t *testing.T) {
	starting := map[string]bool{history.StartInstance: true, history.SplitNodes: true, history.JoinNodes: true}
	for seed := range uint64(40) {
		all, err := Plan{Preset: "standard", Seed: seed, Duration: 10 * time.Minute, Topology: usual}.Episodes()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			starts, ledger := false, false
			for _, s := range e.Steps {
				starts = starts || starting[s.Kind]
				ledger = ledger || strings.Contains(s.Kind, "postgres")
			}
			if starts && ledger {
				t.Errorf("seed %d: %s restarts an instance while the ledger is broken", seed, e.Name)
			}
		}
	}
}

func TestMissedFaultIsNoFailure(t *testing.T) {
	var got history.Fault
	target := targetFunc(func() (string, error) { return "", fmt.Errorf("no reply: %w", history.ErrMissed) })
	err := Run(t.Context(), target, []Step{{Action: history.Action{Kind: history.DropReply}}}, func() time.Duration { return 0 }, func(f history.Fault) { got = f })
	if err != nil || !got.Missed || got.Err != "" || got.Proof == "" {
		t.Errorf("%+v, %v", got, err)
	}
}

type targetFunc func() (string, error)

func (f targetFunc) Do(context.Context, history.Action) (string, error) { return f() }

func TestLateStepsKeepTheirDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var at []time.Duration
		target := targetFunc(func() (string, error) {
			at = append(at, time.Since(began))
			if len(at) == 1 {
				time.Sleep(2 * time.Second)
			}
			return "seen", nil
		})
		steps := []Step{{At: 0}, {At: time.Second}, {At: 4 * time.Second}}
		if err := Run(t.Context(), target, steps, func() time.Duration { return time.Since(began) }, func(history.Fault) {}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 5 * time.Second}, at); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatIsImpossibleIsNotDrawn(t *testing.T) {
	without := Impossible(usual, func(a history.Action) bool { return a.Kind == history.KillNode || a.Kind == history.RestartNode })
	p := Plan{Preset: "standard", Without: without, Seed: 4, Duration: 10 * time.Minute, Topology: usual}
	steps, err := p.Steps()
	if err != nil || len(steps) == 0 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	for _, s := range steps {
		if s.Kind != history.KillNode && s.Kind != history.RestartNode {
			t.Fatalf("%s was drawn", s.Action)
		}
	}
	p.Preset = "ledger"
	if _, err := p.Steps(); err == nil || !strings.Contains(err.Error(), "fill-disk") {
		t.Errorf("a preset of which nothing is possible: %v", err)
	}
	p.Preset, p.Only = "standard", []string{"cut-redis"}
	if _, err := p.Steps(); err == nil {
		t.Error("an impossible fault was planned")
	}
}
