package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSavedRunIsLoadedAsItWas(t *testing.T) {
	dir := t.TempDir()
	want := &History{
		Setup:   Setup{Seed: 1, Duration: time.Minute, Nodes: 3, Instances: 2, Rehearsal: true, Mutant: "m"},
		Effects: []Effect{{At: 1, Kind: Start, Key: "k", Execution: "x", Fence: 2, Attempt: 3, Instance: "i", Route: "primary"}},
		Ops:     []Op{{Kind: Fresh, Key: "k", Sent: 1, Got: 2, Status: 200, Body: "b", Replayed: true, Durable: true}, {Err: "EOF"}},
		Faults:  []Fault{{At: 4, Done: 5, Action: Action{Kind: KillNode, Node: 1}, Proof: "p"}},
		Rows:    []Row{{Key: "k", State: "completed", Fence: 2}},
		Healed:  9,
	}
	if err := want.Save(dir); err != nil {
		t.Fatal(err)
	}
	if err := writeLines(filepath.Join(dir, EffectsFile), want.Effects); err != nil {
		t.Fatal(err)
	}
	got, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBrokenFilesAreNamed(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "no folder of a chaos run") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := (&History{}).Save(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, EffectsFile)
	if err := os.WriteFile(path, []byte("{\"at\":1}\n{\"at\":"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), EffectsFile+", item 2") {
		t.Errorf("a file cut short: %v", err)
	}
}
