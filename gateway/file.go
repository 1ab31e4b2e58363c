package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/redfence/redfence"
	"github.com/redfence/redfence/internal/problems"
)

// A File is what a configuration file says.
type File struct {
	// Routes are what is proxied.
	Routes []Route `yaml:"routes"`
	// Locks serves the lock API. Defaults to off.
	Locks Locks `yaml:"locks"`
}

// Load reads and checks a configuration file. Its error lists every problem at
// once, each with file, line and field.
func Load(name string) (File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return File{}, fmt.Errorf("configuration: %w", err)
	}
	return Parse(name, text)
}

// Parse is Load for a text that has been read. name is for errors.
func Parse(name string, text []byte) (file File, err error) {
	p := &filePath{name: name, lines: map[string]int{}}
	defer func() {
		if recover() != nil { // the parser gives up on some malformed texts like this
			file, err = File{}, fmt.Errorf("%s: this is no YAML", name)
		}
	}()
	tree, err := parser.ParseBytes(text, 0)
	if err != nil {
		return File{}, p.syntax(err)
	}
	if len(tree.Docs) != 1 || tree.Docs[0].Body == nil {
		return File{}, fmt.Errorf("%s: want one YAML document with routes", name)
	}
	ast.Walk(p, tree.Docs[0].Body)
	if err := p.problems.Err(); err != nil {
		return File{}, err
	}
	p.decode(tree.Docs[0].Body, reflect.ValueOf(&file).Elem(), "")
	if p.problems.Err() == nil { // else a check would tell what follows from it
		file.check(p)
	}
	if err := p.problems.Err(); err != nil {
		return File{}, err
	}
	return file, nil
}

// check tells what is wrong with the values.
func (f File) check(p *filePath) {
	var list problems.List
	if len(f.Routes) == 0 {
		list.AddErr(&fieldProblem{"routes", errors.New("none; give at least one with an upstream")})
	}
	for i, r := range f.Routes {
		r.check(nobody{}, fmt.Sprintf("routes[%d]", i), &list)
	}
	f.Locks.check("locks", &list)
	if err := list.Err(); err != nil {
		for _, problem := range problems.All(err) {
			p.locate(problem)
		}
	}
}

// nobody stands in for the engine while a file is checked.
type nobody struct{}

// Do is never called.
func (nobody) Do(context.Context, redfence.Request, redfence.Handler) (redfence.Result, error) {
	return redfence.Result{}, redfence.ErrClosed
}

// A filePath collects the problems of one file and knows where its fields are.
type filePath struct {
	name     string
	lines    map[string]int // by field
	problems problems.List
}

// Visit refuses what makes a text mean something else than it shows, and what
// the decoder does not survive everywhere.
func (p *filePath) Visit(node ast.Node) ast.Visitor {
	switch node.Type() {
	case ast.TagType, ast.AnchorType, ast.AliasType, ast.MergeKeyType:
		p.add(node.GetToken().Position.Line, node.Type().String(), errors.New("tags, anchors, aliases and merge keys are not understood here"))
		return nil
	}
	return p
}

func (p *filePath) syntax(err error) error {
	var located yaml.Error
	if errors.As(err, &located) {
		return fmt.Errorf("%s:%d: %s", p.name, located.GetToken().Position.Line, located.GetMessage())
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

func (p *filePath) add(line int, field string, err error) {
	p.problems.AddErr(fmt.Errorf("%s:%d: %s: %w", p.name, line, field, err))
}

// locate tells a problem of a field by its line, or by that of the nearest
// field around it which the file has.
func (p *filePath) locate(problem error) {
	var f *fieldProblem
	if !errors.As(problem, &f) {
		p.problems.AddErr(fmt.Errorf("%s: %w", p.name, problem))
		return
	}
	for at := f.field; at != ""; at = parent(at) {
		if line, ok := p.lines[at]; ok {
			p.add(line, f.field, f.err)
			return
		}
	}
	p.add(1, f.field, f.err)
}

func parent(field string) string {
	if i := strings.LastIndexAny(field, ".["); i >= 0 {
		return field[:i]
	}
	return ""
}

// decode fills a struct from a mapping, field by field, so that one mistake
// does not hide the next.
func (p *filePath) decode(node ast.Node, into reflect.Value, at string) {
	line := node.GetToken().Position.Line
	p.lines[at] = line
	switch {
	case into.Kind() == reflect.Struct:
		p.decodeStruct(node, into, at)
	case into.Kind() == reflect.Slice && into.Type().Elem().Kind() == reflect.Struct:
		p.decodeList(node, into, at)
	case into.Type() == reflect.TypeFor[time.Duration]() && isForever(node):
		into.SetInt(int64(redfence.Forever))
	default:
		if err := yaml.NodeToValue(node, into.Addr().Interface()); err != nil {
			p.add(line, at, fmt.Errorf("%s is no %s", shown(node), kindOf(into.Type())))
		}
	}
}

func isForever(node ast.Node) bool {
	text, ok := node.(*ast.StringNode)
	return ok && text.Value == "forever"
}

const shownValue = 40

// shown is a value as the file has it, cut short and on one line.
func shown(node ast.Node) string {
	if node.Type() == ast.MappingType || node.Type() == ast.SequenceType {
		return "a " + strings.ToLower(node.Type().String())
	}
	text := strings.Join(strings.Fields(node.String()), " ")
	if len(text) > shownValue {
		text = text[:shownValue] + "…"
	}
	return text
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "duration such as 10s"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "list of texts"
	case t.Kind() == reflect.String:
		return "text"
	}
	return "whole number"
}

func (p *filePath) decodeList(node ast.Node, into reflect.Value, at string) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		p.add(p.lines[at], at, errors.New("must be a list"))
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(list.Values), len(list.Values)))
	for i, item := range list.Values {
		p.decode(item, into.Index(i), fmt.Sprintf("%s[%d]", at, i))
	}
}

func (p *filePath) decodeStruct(node ast.Node, into reflect.Value, at string) {
	var entries []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		entries = n.Values
	case *ast.MappingValueNode:
		entries = []*ast.MappingValueNode{n}
	default:
		p.add(p.lines[at], orRoot(at), errors.New("must be a mapping"))
		return
	}
	fields := map[string]reflect.Value{}
	for i := range into.NumField() {
		if name := into.Type().Field(i).Tag.Get("yaml"); name != "" {
			fields[name] = into.Field(i)
		}
	}
	for _, entry := range entries {
		name := entry.Key.GetToken().Value
		field := strings.TrimPrefix(at+"."+name, ".")
		value, known := fields[name]
		if !known {
			p.add(entry.Key.GetToken().Position.Line, field, errors.New("unknown field"))
			continue
		}
		p.decode(entry.Value, value, field)
		p.lines[field] = entry.Key.GetToken().Position.Line
	}
}

func orRoot(at string) string {
	if at == "" {
		return "document"
	}
	return at
}
