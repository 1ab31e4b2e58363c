package meta

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a program gets that imports one of these packages, module by module.
// A new line here is a decision: it reaches every user of the package.
var (
	everywhere = []string{"github.com/hashicorp/errwrap", "github.com/hashicorp/go-multierror"}
	redisOnes  = []string{
		"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic",
		"github.com/sony/gobreaker/v2", "golang.org/x/sys",
	}
	lockOnes     = slices.Concat(everywhere, redisOnes, []string{"github.com/go-redsync/redsync/v4"})
	fallbackOnes = slices.Concat(everywhere, []string{
		"github.com/jackc/pgx/v5", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile",
		"github.com/jackc/puddle/v2", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/text",
	})
	rootOnes = slices.Concat(lockOnes, fallbackOnes, []string{
		"github.com/klauspost/compress", "github.com/maypok86/otter/v2",
	})
	modulesOf = map[string][]string{
		"observe":  nil,
		"lock":     lockOnes,
		"fallback": fallbackOnes,
		"":         rootOnes,
		"redfencehttp": slices.Concat(rootOnes, []string{
			"github.com/dunglas/httpsfv", "github.com/google/uuid",
		}),
	}
)

func TestModulesThatUsersGet(t *testing.T) {
	for path, want := range modulesOf {
		got := map[string]bool{}
		for _, p := range list(t, "-deps", "./"+path) {
			if p.Module != nil && p.Module.Path != module {
				got[p.Module.Path] = true
			}
		}
		want = slices.Compact(slices.Sorted(slices.Values(want)))
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("modules of %q, allowed (-) and found (+):\n%s", path, diff)
		}
	}
}

// imported are the modules that our packages and their tests import by name.
func imported(t *testing.T) []string {
	t.Helper()
	moduleOf := map[string]string{}
	for _, p := range list(t, "-deps", "-test", "./...") {
		if p.Module != nil && p.Module.Path != module {
			moduleOf[p.ImportPath] = p.Module.Path
		}
	}
	direct := map[string]bool{}
	for _, variant := range variants {
		for _, p := range list(t, variant...) {
			for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
				if m, ok := moduleOf[path]; ok {
					direct[m] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(direct))
}

// explained are the modules that docs/adr/dependencies.md has a line for: the
// first cell of each row of its table.
func explained(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(root + "/docs/adr/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllSubmatch(page, -1) {
		modules = append(modules, string(row[1]))
	}
	slices.Sort(modules)
	return modules
}

func TestDependenciesAreExplained(t *testing.T) {
	if diff := cmp.Diff(explained(t), imported(t)); diff != "" {
		t.Errorf("modules with a line in docs/adr/dependencies.md (-) and imported ones (+):\n%s", diff)
	}
}

func TestGoModNamesWhatIsImported(t *testing.T) {
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range imported(t) {
		if !strings.Contains(string(mod), "\t"+m+" v") && !strings.Contains(string(mod), "require "+m+" v") {
			t.Errorf("go.mod does not name %s", m)
		}
	}
}
