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
			if err := client.Record(t.Context(), e); err != nil {
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
