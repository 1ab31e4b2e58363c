//go:build chaos

package failpoint

import "testing"

func TestBiasIsParsed(t *testing.T) {
	got, err := parseBias("one=0.3, two=1,")
	if err != nil || len(got) != 2 || got["one"] != 0.3 || got["two"] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"one", "one=", "=0.5", "one=1.5", "one=-1"} {
		if _, err := parseBias(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestWithoutBiasNothingIsLeftToChance(t *testing.T) {
	for range 100 {
		if Chance("anything") {
			t.Fatal("it happened")
		}
	}
}
