package redfenceprom_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/observe"
	"github.com/redfence/redfence/redfenceprom"
)

// The table of docs/METRICS.md has every metric with its labels, and no other.
func TestPageListsEveryMetric(t *testing.T) {
	page, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\| ([a-z, ]*)\\|").FindAllStringSubmatch(string(page), -1) {
		listed[row[1]] = strings.TrimSpace(row[2])
	}
	c := redfenceprom.New()
	for _, e := range observe.All() {
		c.Observe(filled(t, e))
	}
	offered := map[string]string{}
	for name := range series(t, c) {
		metric, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		offered[metric] = labelNames(labels)
	}
	if diff := cmp.Diff(listed, offered); diff != "" {
		t.Errorf("on the page (-) and from the collector (+):\n%s", diff)
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range regexp.MustCompile("`(redfence_[a-z_]+[a-z])").FindAllStringSubmatch(string(text), -1) {
			if _, ok := offered[metric[1]]; !ok {
				t.Errorf("%s names %s, which is no metric", name, metric[1])
			}
		}
	}
}

// labelNames turns a=1,b=2 into the sorted names, as the page has them.
func labelNames(labels string) string {
	var names []string
	for pair := range strings.SplitSeq(labels, ",") {
		if name, _, ok := strings.Cut(pair, "="); ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
