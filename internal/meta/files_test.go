package meta

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

const maxLines = 500

// leftovers are marks of unfinished work; spelled so that this file has none.
var leftovers = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

func TestFilesAreShortAndFinished(t *testing.T) {
	for _, name := range textFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n > maxLines && filepath.Ext(name) != ".json" {
			t.Errorf("%s has %d lines, more than %d: split it", name, n, maxLines)
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if mark := leftovers.Find(line); mark != nil {
				t.Errorf("%s:%d: %s: finish it, or file it as an issue", name, i+1, mark)
			}
		}
	}
}
