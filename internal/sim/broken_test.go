package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redfence/redfence/fallback"
)

// Stores that break one rule each. The simulation has to notice, and say what
// has come of it.
var broken = []struct {
	name   string
	breaks func(*fallback.Memory) store
	notice string // in what the judge says
}{
	{"claims of a key at work are granted", func(m *fallback.Memory) store { return &claimsTwice{m} }, "second start"},
	{"completed keys are granted", func(m *fallback.Memory) store { return &claimsCompleted{m} }, "after a durable answer"},
	{"a lapsed claim is released whatever its policy", func(m *fallback.Memory) store { return &lapseReleases{m} }, "second start"},
	{"a completion under an old fence is taken", func(m *fallback.Memory) store { return &anyFence{m} }, "was granted"},
	{"a completion is confirmed and lost", func(m *fallback.Memory) store { return &losesCompletions{m} }, "had a durable answer"},
	{"a lease is granted that the row does not have", func(m *fallback.Memory) store { return &longGrants{m} }, "started under fence"},
	{"what was given back is not released", func(m *fallback.Memory) store { return &keepsGivenBack{m} }, "although the owner lives"},
}

// TestBrokenStoresAreNoticed: a simulation that can find nothing proves nothing.
// One seed in seventeen notices the store that is noticed least.
func TestBrokenStoresAreNoticed(t *testing.T) {
	const most = 200
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(most) {
				all := strings.Join(play(t, stalled(seed), b.breaks(fallback.NewMemory())), "\n")
				if strings.Contains(all, b.notice) {
					t.Logf("noticed with seed %d", seed)
					return
				}
			}
			t.Errorf("not noticed in %d seeds", most)
		})
	}
}

// read is the row, which is there whatever the context.
func read(m *fallback.Memory, d fallback.Digest) fallback.Record {
	row, err := m.Read(context.Background(), d)
	if err != nil {
		panic(fmt.Sprint("the ledger in memory: ", err))
	}
	return row
}

func ref(row fallback.Record) fallback.Ref {
	return fallback.Ref{Digest: row.Digest, Token: row.Token, Fence: row.Fence}
}

type claimsTwice struct{ *fallback.Memory }

func (s *claimsTwice) Claim(ctx context.Context, req fallback.ClaimRequest) (fallback.Verdict, error) {
	if row := read(s.Memory, req.Digest); row.State == fallback.Processing {
		_ = s.Release(ctx, ref(row), "broken")
	}
	return s.Memory.Claim(ctx, req)
}

type claimsCompleted struct{ *fallback.Memory }

// Read hides the response, as a route that does not look would.
func (s *claimsCompleted) Read(ctx context.Context, d fallback.Digest) (fallback.Record, error) {
	row, err := s.Memory.Read(ctx, d)
	if row.State == fallback.Completed {
		row.State = fallback.Released
	}
	return row, err
}

func (s *claimsCompleted) Claim(ctx context.Context, req fallback.ClaimRequest) (fallback.Verdict, error) {
	v, err := s.Memory.Claim(ctx, req)
	if err == nil && v.Row != nil && v.Row.State == fallback.Completed {
		left := 10 * lease
		v = fallback.Verdict{Granted: &fallback.Grant{Fence: v.Row.Fence + 1, Attempt: 1, Deadline: time.Now().Add(left), Cap: time.Now().Add(left)}}
	}
	return v, err
}

type lapseReleases struct{ *fallback.Memory }

func (s *lapseReleases) Lapse(ctx context.Context, d fallback.Digest, fence int64) (fallback.Record, error) {
	if row := read(s.Memory, d); row.State == fallback.Processing && row.Fence == fence && row.Lapsed() {
		_ = s.Release(ctx, ref(row), "broken")
	}
	return read(s.Memory, d), nil
}

type anyFence struct{ *fallback.Memory }

func (s *anyFence) Complete(ctx context.Context, c fallback.Completion) (fallback.Record, error) {
	if row := read(s.Memory, c.Digest); row.State == fallback.Processing {
		c.Ref = ref(row)
	}
	return s.Memory.Complete(ctx, c)
}

type losesCompletions struct{ *fallback.Memory }

func (s *losesCompletions) Complete(_ context.Context, c fallback.Completion) (fallback.Record, error) {
	row := read(s.Memory, c.Digest)
	row.State, row.Response, row.Status = fallback.Completed, c.Response, c.Status
	return row, nil
}

type longGrants struct{ *fallback.Memory }

func (s *longGrants) Claim(ctx context.Context, req fallback.ClaimRequest) (fallback.Verdict, error) {
	v, err := s.Memory.Claim(ctx, req)
	if v.Granted != nil {
		v.Granted.Deadline = v.Granted.Cap
	}
	return v, err
}

type keepsGivenBack struct{ *fallback.Memory }

func (s *keepsGivenBack) GiveBack(context.Context, fallback.Ref, string) error { return nil }
