package main

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestShorterKeepsWhatMakesItFail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "items")
		items := make([]int, n)
		for i := range items {
			items[i] = i
		}
		needed := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, min(3, n), rapid.ID[int]).Draw(t, "needed")
		used := 0
		got, err := shorter(items, 1000, func(try []int) (bool, error) {
			used++
			if len(try) == 0 || len(try) >= n {
				t.Fatalf("tried %v of %d", try, n)
			}
			return !slices.ContainsFunc(needed, func(i int) bool { return !slices.Contains(try, i) }), nil
		})
		slices.Sort(needed)
		if err != nil || !slices.Equal(got, needed) {
			t.Fatalf("%v is left after %d tries, want %v; %v", got, used, needed, err)
		}
	})
}

func TestShorterStopsInTime(t *testing.T) {
	items := []int{0, 1, 2, 3, 4, 5, 6, 7}
	used := 0
	got, err := shorter(items, 3, func([]int) (bool, error) { used++; return false, nil })
	if err != nil || used != 3 || !slices.Equal(got, items) {
		t.Errorf("%v after %d tries, %v", got, used, err)
	}
	broken := errors.New("the rig")
	if _, err := shorter(items, 3, func([]int) (bool, error) { return false, broken }); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}
