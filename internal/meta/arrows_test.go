package meta

import (
	"slices"
	"strings"
	"testing"
)

// layers say who may import whom, from the ground up. A package belongs to the
// first entry that its path matches; it may import what the entry names, and
// packages of the entry itself. A trailing slash means everything below.
//
// The picture of this table is in docs/ARCHITECTURE.md.
var layers = []struct {
	path string
	may  []string
}{
	{"observe", nil}, // nothing but the standard library
	{"internal/", []string{"observe"}},

	// The four rooms do not know of one another: the engine joins them.
	{"lock", ground},
	{"lock/locktest", append([]string{"lock"}, ground...)},
	{"cache", ground},
	{"fallback", ground},
	{"fallback/ledgertest", append([]string{"fallback"}, ground...)},
	{"breaker", ground},

	{"", engine},
	{"redfencehttp", withEngine},
	{"redfencehttp/conformance", append([]string{"redfencehttp"}, withEngine...)},
	{"redfenceprom", []string{"observe"}},
	{"gateway", slices.Concat(withEngine, []string{"redfencehttp"})},
	{"dashboard", slices.Concat(withEngine, []string{"redfencehttp"})},

	{"cmd/redfence", programs},
	{"cmd/bench", programs},
	{"cmd/bench/internal/", programs},
	{"chaos", programs},
	{"chaos/instance", append([]string{"chaos/internal/"}, programs...)},
	{"chaos/internal/", programs},
	{"spec", ground},
	{"spec/", append([]string{"spec"}, ground...)},
	{"deploy", nil}, // tests of its files
}

var (
	ground     = []string{"observe", "internal/"}
	engine     = append([]string{"lock", "cache", "fallback", "breaker"}, ground...)
	withEngine = append([]string{""}, engine...)
	programs   = append([]string{"redfencehttp", "redfenceprom", "gateway", "dashboard"}, withEngine...)
)

// matches reports whether a package is the one that a name stands for.
func matches(path, name string) bool {
	if strings.HasSuffix(name, "/") {
		return strings.HasPrefix(path, name)
	}
	return path == name
}

func layerOf(path string) int {
	return slices.IndexFunc(layers, func(l struct {
		path string
		may  []string
	}) bool {
		return matches(path, l.path)
	})
}

func TestArrows(t *testing.T) {
	for _, variant := range variants {
		for _, p := range list(t, variant...) {
			i := layerOf(p.path())
			if i < 0 {
				t.Errorf("%s has no place in the layers: give it one here and in docs/ARCHITECTURE.md", p.ImportPath)
				continue
			}
			for _, to := range p.Imports {
				if ours(to) && !mayImport(i, p.path(), relative(to)) {
					t.Errorf("%s imports %s, which its layer may not", p.ImportPath, to)
				}
			}
		}
	}
}

func mayImport(layer int, from, to string) bool {
	l := layers[layer]
	for _, name := range l.may {
		if matches(to, name) {
			return true
		}
	}
	if strings.HasSuffix(l.path, "/") {
		return matches(to, l.path)
	}
	// Its own folder, except a conformance suite, which imports the other way.
	return strings.HasPrefix(to, l.path+"/internal/") && l.path != ""
}

// The rooms stay apart through any number of steps, and nobody below the
// engine knows the engine.
func TestRoomsStayApart(t *testing.T) {
	rooms := []string{"lock", "cache", "fallback", "breaker"}
	seen := 0
	for _, variant := range variants {
		for _, p := range list(t, variant...) {
			if !slices.Contains(rooms, p.path()) {
				continue
			}
			seen++
			for _, dep := range p.Deps {
				if ours(dep) && (relative(dep) == "" || slices.Contains(rooms, relative(dep))) {
					t.Errorf("%s depends on %s", p.ImportPath, dep)
				}
			}
		}
	}
	if seen != len(variants)*len(rooms) {
		t.Errorf("saw %d rooms", seen)
	}
}

func TestObserveIsALeaf(t *testing.T) {
	deps := list(t, "-deps", "./observe")
	for _, p := range deps {
		if !p.Standard && p.path() != "observe" {
			t.Errorf("observe depends on %s", p.ImportPath)
		}
	}
	if len(deps) < 10 {
		t.Errorf("saw %d packages", len(deps))
	}
}

// Servers for tests are for tests and programs: no library starts one.
func TestLibrariesStartNoServers(t *testing.T) {
	for _, p := range list(t, "./...") {
		if i := layerOf(p.path()); i < 0 || slices.Contains([]string{"internal/", "chaos", "chaos/instance", "chaos/internal/", "cmd/bench", "cmd/bench/internal/", "cmd/redfence"}, layers[i].path) {
			continue
		}
		for _, dep := range p.Deps {
			if dep == module+"/internal/servers" || dep == module+"/internal/testenv" {
				t.Errorf("%s depends on %s outside of its tests", p.ImportPath, dep)
			}
		}
	}
}

// The table above says no where it should: a test of the test.
func TestLayersRefuse(t *testing.T) {
	for _, pair := range [][2]string{
		{"lock", "fallback"}, {"cache", "lock"}, {"breaker", "lock"}, {"fallback", ""}, {"lock", ""}, {"lock", "lock/locktest"},
		{"observe", "internal/problems"}, {"internal/node", "lock"}, {"internal/testenv", ""},
		{"", "redfencehttp"}, {"", "redfenceprom"}, {"redfencehttp", "gateway"}, {"redfencehttp", "redfenceprom"},
		{"redfenceprom", ""}, {"gateway", "cmd/redfence"}, {"cmd/redfence", "chaos/internal/check"}, {"spec", "fallback"},
	} {
		if i := layerOf(pair[0]); i < 0 || mayImport(i, pair[0], pair[1]) {
			t.Errorf("%q may import %q", pair[0], pair[1])
		}
	}
	for _, pair := range [][2]string{
		{"lock", "internal/node"}, {"", "lock"}, {"gateway", "redfencehttp"}, {"lock/locktest", "lock"}, {"chaos", "chaos/internal/check"},
		{"internal/node", "internal/problems"}, {"cmd/bench", "cmd/bench/internal/work"},
	} {
		if i := layerOf(pair[0]); i < 0 || !mayImport(i, pair[0], pair[1]) {
			t.Errorf("%q may not import %q", pair[0], pair[1])
		}
	}
}
