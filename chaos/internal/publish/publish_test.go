package publish

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTablesAreWrittenBetweenTheirMarks(t *testing.T) {
	dir := t.TempDir()
	page := write(t, dir, "page.md", `before
<!-- chaos: scenarios, written by `+"`chaos publish`"+` -->
outdated
<!-- chaos: end of scenarios -->
<!-- chaos: mutants, written by `+"`chaos publish`"+` -->
<!-- chaos: end of mutants -->
<!-- chaos: baselines, written by `+"`chaos publish`"+` -->
stays
<!-- chaos: end of baselines -->
after
`)
	files := []string{
		write(t, dir, "ours.json", `{"engine":"redfence","results":[{"letter":"a","name":"finished-in-redis-only","class":0}]}`),
		write(t, dir, "naive.json", `{"engine":"naive","results":[{"letter":"a","name":"finished-in-redis-only","class":1,"what":"double start"},{"name":"ledger-down","class":0,"what":"none"}]}`),
		write(t, dir, "mutants.json", `{"mutants":[{"name":"m","rule":"R1","breaks":"x","killer":"scenario y","caught":true,"took":1250000000},{"name":"n","caught":false}]}`),
	}
	e, err := Read(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Write(page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, want := range []string{
		"before\n", "\nafter\n", "\nstays\n", "| redfence | naive |\n",
		"| a | finished-in-redis-only | finished, every node lost, retry elsewhere | ok | safety |\n",
		"| **0 of 1** | **1 of 1** |\n", "| u | ledger-down |",
		"| `m` | R1 | x | scenario y | 1.3s |\n", "1 of 2 were caught", "**survived**",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "outdated") {
		t.Error("the old table is still there")
	}
}

func TestWhatIsNoEvidenceIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read([]string{write(t, dir, "x.json", `{"x":1}`), filepath.Join(dir, "none.json")}); err == nil ||
		!strings.Contains(err.Error(), "x.json") || !strings.Contains(err.Error(), "none.json") {
		t.Errorf("Read: %v", err)
	}
	e := Evidence{Mutants: nil}
	if e.Write(filepath.Join(dir, "none.md")) == nil {
		t.Error("a page that is not there was written")
	}
	e, err := Read([]string{write(t, dir, "m.json", `{"mutants":[{"name":"m"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Write(write(t, dir, "p.md", "no marks")); err == nil || !strings.Contains(err.Error(), "end of mutants") {
		t.Errorf("Write: %v", err)
	}
}

// TestASoakHasTablesOfItsOwn: also in a page that has no others.
func TestASoakHasTablesOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	e, err := Read([]string{write(t, dir, "soak.json", `{"verdict":"fine (0)","setup":{"preset":"soak","seed":3,"duration":3600000000000},
		"result":{"violations":[{"class":1,"check":"double start"},{"class":1,"check":"sum wrong"},{"class":2,"check":"not back"}],
		"figures":{"requests":900,"keys":200,"broken":{"kill-node":7,"pause-node":40},"outages":[{},{}],
		"recovery":{"served":{"count":6,"p50":123456789,"p99":2000000000}},"availability":{"requests":1000,"served":999}}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	page := write(t, dir, "page.md", `<!-- chaos: soak, written by `+"`chaos publish`"+` -->
<!-- chaos: end of soak -->
<!-- chaos: faults of the soak, written by `+"`chaos publish`"+` -->
<!-- chaos: end of faults of the soak -->
`)
	if err := e.Write(page); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| seed 3, 1h0m0s | 900 | 200 | 47 | 2 times | **1** | **1** | 120ms, 2s (of 6) | – | 99.900 % of 1000 | fine (0) |\n",
		"| `pause-node` | 40 |\n| `kill-node` | 7 |\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}
