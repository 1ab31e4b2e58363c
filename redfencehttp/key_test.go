package redfencehttp

import (
	"net/http"
	"strings"
	"testing"
)

func FuzzKey(f *testing.F) {
	for _, seed := range []string{
		"k", `"k"`, `"k";a=1`, `"a\"b\\c"`, "a, a", `"a", a`, `"unterminated`, "a b", "ké", `"";`, `"k";a="x,y";b`, ",", "  k\t", strings.Repeat("x", 256),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := fieldKey(value)
		if err != nil {
			return
		}
		if len(key) < 1 || len(key) > maxKey {
			t.Fatalf("%q: a key of %d bytes", value, len(key))
		}
		for i := range len(key) {
			if key[i] < ' ' || key[i] > '~' {
				t.Fatalf("%q: byte %#x", value, key[i])
			}
		}
		sent, err := quoted(key)
		if err != nil {
			t.Fatalf("%q cannot be sent: %v", key, err)
		}
		if again, err := fieldKey(sent); err != nil || again != key {
			t.Fatalf("%q is sent as %q and read as %q, %v", key, sent, again, err)
		}
		// However an intermediary joins it with itself, it is one key.
		for _, h := range []http.Header{
			{"Idempotency-Key": {value, sent}}, {"Idempotency-Key": {value + ", " + sent}}, {"X-Idempotency-Key": {value}, "Idempotency-Key": {sent}},
		} {
			if again, found, err := headerKey(h, defaults().headers); err != nil || !found || again != key {
				t.Fatalf("%q: %q, %v, %v", h, again, found, err)
			}
		}
		if _, _, err := headerKey(http.Header{"Idempotency-Key": {value, sent[:len(sent)-1] + "~" + sent[len(sent)-1:]}}, defaults().headers); err == nil {
			t.Fatalf("%q: two different keys were accepted", value)
		}
	})
}
