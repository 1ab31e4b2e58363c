package meta

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/redfence/redfence/observe"
)

// TestEveryEventIsSent: an event that nobody sends is a metric that never
// moves.
func TestEveryEventIsSent(t *testing.T) {
	var code strings.Builder
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(path)
		if d.IsDir() && (d.Name() == "redfenceprom" || d.Name() == "testdata" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(slash, ".go") || strings.HasSuffix(slash, "_test.go") || strings.HasSuffix(slash, "observe/all.go") {
			return nil
		}
		b, err := os.ReadFile(path)
		code.Write(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range observe.All() {
		name := reflect.TypeOf(event).Name()
		if !strings.Contains(code.String(), "observe."+name+"{") && !strings.Contains(code.String(), "("+name+"{") {
			t.Errorf("nobody sends observe.%s", name)
		}
	}
}
