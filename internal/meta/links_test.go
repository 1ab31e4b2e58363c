package meta

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// Links between the pages of the repository lead somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	for _, name := range textFiles(t) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if to == "" || strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			links++
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(name), to)); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, to)
			}
		}
	}
	if links < 5 {
		t.Errorf("saw %d links", links)
	}
}

// Decisions are found: each is in the list, and those that the code refers to
// exist.
func TestDecisionsAreListed(t *testing.T) {
	index, err := os.ReadFile(root + "/docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(root + "/docs/adr/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/adr/README.md does not list %s", name)
		}
	}
	named := regexp.MustCompile(`docs/adr/[a-z0-9-]+\.md`)
	for _, name := range textFiles(t) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range named.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, page)); err != nil {
				t.Errorf("%s names %s, which does not exist", name, page)
			}
		}
	}
}
