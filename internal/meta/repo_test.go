package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	module = "github.com/redfence/redfence"
	root   = "../.." // of the repository, seen from here
)

// A pkg is what `go list` says of a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Standard     bool
	Module       *struct{ Path string }
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

// path is relative to the module: "" for the root, "lock", "internal/node".
func (p pkg) path() string { return relative(p.ImportPath) }

func relative(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, module), "/")
}

func ours(importPath string) bool {
	return importPath == module || strings.HasPrefix(importPath, module+"/")
}

// list runs `go list` once per set of arguments.
func list(t *testing.T, args ...string) []pkg {
	t.Helper()
	key := strings.Join(args, " ")
	run, _ := listed.LoadOrStore(key, sync.OnceValues(func() ([]pkg, error) { return goList(args) }))
	all, err := run.(func() ([]pkg, error))()
	if err != nil {
		t.Fatalf("go list %s: %v", key, err)
	}
	return all
}

var listed sync.Map // from arguments to func() ([]pkg, error)

func goList(args []string) ([]pkg, error) {
	cmd := exec.Command("go", append([]string{"list", "-json=ImportPath,Dir,Standard,Module,Imports,Deps,TestImports,XTestImports"}, args...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, errors.New(string(exit.Stderr))
	}
	if err != nil {
		return nil, err
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := dec.Decode(&p); err {
		case nil:
			all = append(all, p)
		case io.EOF:
			return all, nil
		default:
			return nil, err
		}
	}
}

// variants are the builds of the module: users get the first.
var variants = [][]string{{"./..."}, {"-tags=chaos", "./..."}}

// textFiles are the files that people edit, relative to the root.
func textFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "dist" ||
			strings.HasPrefix(d.Name(), "chaos-report")):
			return fs.SkipDir
		case d.Type().IsRegular() && edited(d.Name()):
			name, err := filepath.Rel(root, path)
			files = append(files, filepath.ToSlash(name))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("found %d files only", len(files))
	}
	return files
}

func edited(name string) bool {
	return name == "Makefile" || name == "run" || name == "Dockerfile" || name == "go.mod" ||
		slices.Contains([]string{".go", ".lua", ".sql", ".md", ".sh", ".yml", ".yaml", ".pml", ".html", ".css", ".js", ".conf", ".json"}, filepath.Ext(name))
}
