package problems

import (
	"errors"
	"testing"
)

func TestEmptyListIsNil(t *testing.T) {
	var l List
	l.AddErr(nil)
	if err := l.Err(); err != nil {
		t.Fatalf("empty list: %v", err)
	}
}

func TestAllProblemsInOneLine(t *testing.T) {
	var inner, outer List
	cause := errors.New("b")
	inner.Add("a is %d", 1)
	inner.AddErr(cause)
	outer.AddErr(inner.Err())
	outer.Add("c")
	if got, want := outer.Err().Error(), "a is 1; b; c"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(outer.Err(), cause) {
		t.Error("the list does not unwrap to its problems")
	}
	if got := len(All(outer.Err())); got != 3 {
		t.Errorf("All: %d problems, want 3", got)
	}
	if got := All(cause); len(got) != 1 || got[0] != cause {
		t.Errorf("All of a plain error: %v", got)
	}
}
