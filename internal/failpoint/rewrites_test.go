//go:build chaos

package failpoint

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryRewriteFindsItsPlace looks into the statements and scripts as they
// are now.
func TestEveryRewriteFindsItsPlace(t *testing.T) {
	before := mutant
	t.Cleanup(func() { mutant = before })
	for _, r := range rewrites {
		kind, name, _ := strings.Cut(r.place, "/")
		file := map[string]string{"sql": "../../fallback/sql/", "lua": "../../lock/scripts/"}[kind] + name + "." + kind
		text, err := os.ReadFile(filepath.FromSlash(file))
		if err != nil {
			t.Error(err)
			continue
		}
		mutant = func() string { return r.mutant }
		if !strings.Contains(string(text), r.old) || Text(r.place, string(text)) == string(text) {
			t.Errorf("%s finds nothing to break in %s", r.mutant, file)
		}
		mutant = func() string { return "" }
		if Text(r.place, string(text)) != string(text) {
			t.Errorf("%s changes %s unasked", r.mutant, file)
		}
	}
}
