package node

import (
	"fmt"
	"hash/fnv"
	"testing"
)

// TestHome: FNV-1a of the library, which spreads keys over the nodes.
func TestHome(t *testing.T) {
	var at [5]int
	for i := range 5000 {
		key := fmt.Sprint("key ", i)
		h := fnv.New32a()
		h.Write([]byte(key))
		home := Home(key, len(at))
		if want := int(h.Sum32() % uint32(len(at))); home != want {
			t.Fatalf("%q: %d, want %d", key, home, want)
		}
		at[home]++
	}
	for node, n := range at {
		if n < 900 || n > 1100 {
			t.Errorf("node %d is the home of %d keys of 5000", node, n)
		}
	}
}
