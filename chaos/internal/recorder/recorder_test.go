package recorder

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/redfence/redfence/chaos/internal/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatIsAcknowledgedIsInTheFile(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	r, err := New(filepath.Join(dir, history.EffectsFile), func() time.Duration { return time.Since(began) })
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(r.URL())
	defer client.Close()
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			e := history.Effect{Kind: history.Start, Key: "k" + strconv.Itoa(i%39), Execution: strconv.Itoa(i), Fence: int64(i)}
			if _, err := client.Record(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := r.Twice(); got != 1 {
		t.Errorf("%d keys started twice, want 1", got)
	}
	kept := r.Effects()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (&history.History{}).Save(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Effects) != 40 {
		t.Errorf("the file holds %d effects, want 40", len(loaded.Effects))
	}
	if diff := cmp.Diff(kept, loaded.Effects); diff != "" {
		t.Errorf("memory and file differ:\n%s", diff)
	}
}

func TestOldLogsAreNotAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), history.EffectsFile)
	r, err := New(path, func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(path, nil); err == nil {
		t.Error("a second run would write into the log of the first")
	}
}

func TestSinks(t *testing.T) {
	began := time.Now()
	r, err := New(filepath.Join(t.TempDir(), history.EffectsFile), func() time.Duration { return time.Since(began) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for i, c := range []struct {
		kind, sink string
		fence      int64
		value      int64
		refused    bool
		want       int64
	}{
		{kind: history.Done, sink: history.Plain, fence: 2},
		{kind: history.Done, sink: history.Plain, fence: 1},
		{kind: history.Done, sink: history.Fenced, fence: 2},
		{kind: history.Done, sink: history.Fenced, fence: 1, refused: true},
		{kind: history.Done, sink: history.Fenced, fence: 3},
		{kind: history.Done, sink: history.Deduplicating, fence: 5},
		{kind: history.Done, sink: history.Deduplicating, fence: 6, refused: true},
		{kind: history.WriteSlot, fence: 3, value: 10, want: 10},
		{kind: history.ReadSlot, fence: 5, want: 10},
		{kind: history.WriteSlot, fence: 4, value: 11, refused: true, want: 10},
		{kind: history.WriteSlot, fence: 5, value: 12, want: 12},
	} {
		got, err := r.Record(history.Effect{Kind: c.kind, Sink: c.sink, Key: "k", Fence: c.fence, Value: c.value})
		if err != nil || got.Refused != c.refused || got.Value != c.want {
			t.Errorf("%d: %+v: refused %v, value %d, %v", i, c, got.Refused, got.Value, err)
		}
	}
}

func TestReplyIsLostAfterTheEffect(t *testing.T) {
	r, err := New(filepath.Join(t.TempDir(), history.EffectsFile), func() time.Duration { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	client := NewClient(r.URL())
	defer client.Close()
	lost := 0
	for i := range 40 {
		e := history.Effect{Kind: history.Done, Sink: history.Deduplicating, Key: strconv.Itoa(i)}
		if _, err := client.Record(t.Context(), e); err != nil {
			lost++
		}
		if again, err := client.Record(t.Context(), e); err != nil || !again.Refused {
			t.Errorf("sent again: %+v, %v", again, err)
		}
	}
	if lost == 0 || lost == 40 {
		t.Errorf("%d of 40 replies were lost", lost)
	}
}

func TestClocksOfInstancesAreTheRuns(t *testing.T) {
	began := time.Now()
	r, err := New(filepath.Join(t.TempDir(), history.EffectsFile), func() time.Duration { return time.Since(began) })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	before := time.Since(began)
	e, err := r.Record(history.Effect{Kind: history.Acquired, Clock: Clock(), Valid: Clock() + time.Hour})
	if err != nil || e.Clock < before || e.Clock > e.At || e.Valid < e.Clock+time.Hour {
		t.Errorf("%+v after %v, %v", e, before, err)
	}
}
