package observe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/redfence/redfence/observe"
)

// declaredEvents finds the types with a method Name in the package's source.
func declaredEvents(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv != nil && fn.Name.Name == "Name" {
				names = append(names, fn.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	slices.Sort(names)
	return names
}

func TestAllHasEveryEvent(t *testing.T) {
	var listed []string
	for _, e := range observe.All() {
		listed = append(listed, reflect.TypeOf(e).Name())
	}
	slices.Sort(listed)
	if diff := cmp.Diff(declaredEvents(t), listed); diff != "" {
		t.Errorf("events in the source (-) and in All (+):\n%s", diff)
	}
}

func TestNamesAreStableAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range observe.All() {
		name := e.Name()
		if !regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`).MatchString(name) || seen[name] {
			t.Errorf("%T is named %q", e, name)
		}
		seen[name] = true
	}
}
