package meta

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const architecture = "docs/ARCHITECTURE.md"

// treeOf reads the tree of docs/ARCHITECTURE.md: the paths that it names, each
// relative to the root of the repository, folders with a slash at the end.
func treeOf(t *testing.T) map[string]bool {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, architecture))
	if err != nil {
		t.Fatal(err)
	}
	_, tree, found := bytes.Cut(page, []byte("## Tree\n\n```\nredfence/\n"))
	tree, _, ended := bytes.Cut(tree, []byte("```"))
	if !found || !ended {
		t.Fatalf("%s has no tree under the heading Tree", architecture)
	}
	named := map[string]bool{}
	var folders []string // that the line is in
	for line := range strings.Lines(string(tree)) {
		depth, names := parseLine(line)
		if len(names) == 0 {
			continue
		}
		if depth > len(folders) {
			t.Fatalf("%s: %q is deeper than its folder", architecture, line)
		}
		folders = folders[:depth]
		above := path.Join(folders...)
		for _, name := range names {
			full := path.Join(above, name)
			if strings.HasSuffix(name, "/") {
				folders = append(folders[:depth:depth], strings.TrimSuffix(name, "/"))
				full += "/"
			}
			named[full] = true
		}
	}
	return named
}

// parseLine returns how deep a line of the tree is and the names in it, which
// end where two spaces begin the explanation.
func parseLine(line string) (depth int, names []string) {
	rest := strings.TrimRight(line, "\n")
	for {
		cell := firstRunes(rest, 4)
		switch cell {
		case "│   ", "    ":
			depth++
			rest = rest[len(cell):]
			continue
		case "├── ", "└── ":
			rest = rest[len(cell):]
			text, _, _ := strings.Cut(rest, "  ")
			return depth, strings.Fields(text)
		}
		return depth, nil
	}
}

func firstRunes(s string, n int) string {
	i := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[i:])
		i += size
	}
	return s[:i]
}

func TestTreeNamesWhatExists(t *testing.T) {
	named := treeOf(t)
	if len(named) < 100 {
		t.Fatalf("the tree names %d paths only", len(named))
	}
	for name := range named {
		info, err := os.Stat(filepath.Join(root, name))
		switch {
		case err != nil:
			t.Errorf("%s names %s, which does not exist", architecture, name)
		case info.IsDir() != strings.HasSuffix(name, "/"):
			t.Errorf("%s names %s: folders end with a slash, files do not", architecture, name)
		}
	}
}

func TestTreeNamesEveryPackage(t *testing.T) {
	named := treeOf(t)
	for _, p := range list(t, "./...") {
		if p.path() != "" && !named[p.path()+"/"] {
			t.Errorf("%s does not name %s/", architecture, p.path())
		}
	}
	files, err := filepath.Glob(root + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := filepath.Base(f); !strings.HasSuffix(name, "_test.go") && !named[name] {
			t.Errorf("%s does not name %s", architecture, name)
		}
	}
}
