package meta

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryExportedNameIsDocumented(t *testing.T) {
	names := 0
	for _, p := range list(t, "./...") {
		c := checker{t: t, fset: token.NewFileSet()}
		files, err := filepath.Glob(filepath.Join(p.Dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		story := false
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(c.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			story = story || f.Doc.Text() != ""
			c.file(f)
		}
		if !story && len(p.Imports) > 0 {
			t.Errorf("%s: package has no comment", p.ImportPath)
		}
		names += c.names
	}
	if names < 200 {
		t.Errorf("looked at %d names only", names)
	}
}

type checker struct {
	t     *testing.T
	fset  *token.FileSet
	names int
}

func (c *checker) file(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && exportedReceiver(d) {
				c.need(d.Pos(), "function", d.Name.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				c.spec(d, s)
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

func (c *checker) spec(d *ast.GenDecl, s ast.Spec) {
	switch s := s.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			c.need(s.Pos(), "type", s.Name.Name, d.Doc, s.Doc)
			c.members(s)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				c.need(n.Pos(), "value", n.Name, d.Doc, s.Doc, s.Comment)
			}
		}
	}
}

// members are the methods of an interface and the fields of a configuration:
// for both, the comment is all that their user has. What an interface with one
// method does is said by its own comment.
func (c *checker) members(s *ast.TypeSpec) {
	switch x := s.Type.(type) {
	case *ast.InterfaceType:
		if len(x.Methods.List) > 1 {
			c.fields(s.Name.Name, x.Methods)
		}
	case *ast.StructType:
		if regexp.MustCompile(`(Config|Policy|Options)$`).MatchString(s.Name.Name) {
			c.fields(s.Name.Name, x.Fields)
		}
	}
}

// fields need a comment each, or one of another field that speaks of them.
func (c *checker) fields(owner string, list *ast.FieldList) {
	var all strings.Builder
	for _, f := range list.List {
		all.WriteString(f.Doc.Text() + f.Comment.Text())
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			shared := regexp.MustCompile(`\b` + n.Name + `\b`).MatchString(all.String())
			if n.IsExported() && !shared {
				c.need(n.Pos(), "member", owner+"."+n.Name, f.Doc, f.Comment)
			}
		}
	}
}

func (c *checker) need(pos token.Pos, kind, name string, comments ...*ast.CommentGroup) {
	c.names++
	for _, doc := range comments {
		if strings.TrimSpace(doc.Text()) != "" {
			return
		}
	}
	c.t.Errorf("%s: %s %s is not documented", c.at(pos), kind, name)
}

func (c *checker) at(pos token.Pos) string {
	p := c.fset.Position(pos)
	dir, err := filepath.Abs(root)
	if err != nil {
		c.t.Fatal(err)
	}
	name, err := filepath.Rel(dir, p.Filename)
	if err != nil {
		name = p.Filename
	}
	return fmt.Sprintf("%s:%d", name, p.Line)
}

// embedded scripts say what they take and give.
func TestEveryScriptHasAHeader(t *testing.T) {
	scripts := 0
	for _, name := range textFiles(t) {
		comment := map[string]string{".lua": "--", ".sql": "--"}[filepath.Ext(name)]
		if comment == "" {
			continue
		}
		scripts++
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), comment) {
			t.Errorf("%s does not begin with a comment: what it does, takes and returns", name)
		}
	}
	if scripts < 10 {
		t.Errorf("saw %d scripts", scripts)
	}
}
