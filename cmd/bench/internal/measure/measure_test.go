package measure

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	takes := func(d time.Duration) Op {
		return func(context.Context, int, int) error { time.Sleep(d); return nil }
	}
	tests := []struct {
		name string
		load Load
		op   Op
		rate float64
		p99  time.Duration
	}{
		{"closed loop", Load{Callers: 4, For: time.Second}, takes(10 * time.Millisecond), 400, 10 * time.Millisecond},
		{"warm-up does not count", Load{Callers: 1, Warm: time.Second, For: time.Second}, takes(100 * time.Millisecond), 10, 100 * time.Millisecond},
		{"an operation longer than the round counts in part", Load{Callers: 1, For: time.Second}, takes(10 * time.Second), 0.1, 10 * time.Second},
		{"open loop keeps the rate", Load{Callers: 4, For: time.Second, Rate: 100}, takes(10 * time.Millisecond), 100, 10 * time.Millisecond},
		{"open loop counts the time spent in the queue", Load{Callers: 1, For: time.Second, Rate: 100}, takes(20 * time.Millisecond), 50, 500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := Run(t.Context(), tt.load, tt.op)
				if !within(got.Rate(), tt.rate, 0.02) {
					t.Errorf("Rate() = %v, want %v", got.Rate(), tt.rate)
				}
				if p99 := got.Quantile(0.99); !within(float64(p99), float64(tt.p99), 0.03) {
					t.Errorf("Quantile(0.99) = %v, want %v", p99, tt.p99)
				}
			})
		})
	}
}

func within(got, want, share float64) bool {
	return got >= want*(1-share) && got <= want*(1+share)
}

func TestRunReportsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live Live
		got := Run(t.Context(), Load{Callers: 1, For: time.Second, Live: &live}, func(_ context.Context, _, n int) error {
			time.Sleep(100 * time.Millisecond)
			if n == 3 {
				return errors.New("node on fire")
			}
			return nil
		})
		if got.Failed != 1 || got.FirstError != "node on fire" || !within(got.Ops, 9, 0.01) {
			t.Errorf("got %v operations, %d failed, first %q; want 9, 1, node on fire", got.Ops, got.Failed, got.FirstError)
		}
		ops, failed, slowest := live.Take()
		if ops != 10 || failed != 1 || slowest != 100*time.Millisecond {
			t.Errorf("Live.Take() = %d, %d, %v; want 10, 1, 100ms", ops, failed, slowest)
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := Run(ctx, Load{Callers: 2, For: time.Hour}, func(context.Context, int, int) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		if !within(got.Rate(), 20, 0.1) { // the ends of the context and of an operation coincide
			t.Errorf("Rate() = %v over %v s, want 20", got.Rate(), got.Seconds)
		}
	})
}

func TestWhatTheEndCutsOffIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 950*time.Millisecond)
		defer cancel()
		got := Run(ctx, Load{Callers: 2, For: time.Hour}, func(ctx context.Context, _, _ int) error {
			if !sleep(ctx, 100*time.Millisecond) {
				return ctx.Err()
			}
			return nil
		})
		if got.Failed != 0 || !within(got.Ops, 18, 0.01) {
			t.Errorf("%v operations, %d failed, the first: %s; want 18 and none", got.Ops, got.Failed, got.FirstError)
		}
	})
}

func TestAnOperationThatOutlastsTheRoundFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := Run(t.Context(), Load{Callers: 1, For: time.Second}, func(ctx context.Context, _, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if got.Failed != 1 {
			t.Errorf("%d operations failed, want the one that hung", got.Failed)
		}
	})
}

func TestRunTellsWhenOperationsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := Run(t.Context(), Load{Callers: 1, For: 300 * time.Millisecond, Timeline: true}, func(_ context.Context, _, n int) error {
			time.Sleep(60 * time.Millisecond)
			if n == 1 {
				return errors.New("failed")
			}
			return nil
		})
		// Ends at 60, 120 (failed), 180, 240 and 300 ms, the last one outside.
		if diff := cmp.Diff([]Tick{{Ops: 1}, {Ops: 1, Failed: 1}, {Ops: 1}}, got.Timeline); diff != "" {
			t.Errorf("Timeline (-want +got):\n%s", diff)
		}
	})
}

func TestSpreadOf(t *testing.T) {
	tests := []struct {
		figures []float64
		want    Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{Median: 3, Min: 3, Max: 3}},
		{[]float64{9, 1, 2}, Spread{Median: 2, Min: 1, Max: 9}},
		{[]float64{4, 1, 2, 9}, Spread{Median: 3, Min: 1, Max: 9}},
	}
	for _, tt := range tests {
		if got := SpreadOf(tt.figures); got != tt.want {
			t.Errorf("SpreadOf(%v) = %v, want %v", tt.figures, got, tt.want)
		}
	}
}

func TestRatios(t *testing.T) {
	got := Ratios([]float64{8, 9, 5}, []float64{2, 0, 5})
	if diff := cmp.Diff([]float64{4, 1}, got); diff != "" {
		t.Errorf("Ratios (-want +got):\n%s", diff)
	}
}
