package step

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/windlass-run/windlass/internal/yamltree"
)

// texts fills in a step's templates.
type texts struct {
	file     *File
	step     *Step
	problems []Problem
	uses     []use
}

// isTemplate reports whether a text holds an action.
func isTemplate(s string) bool { return strings.Contains(s, "{{") }

// draft returns a text as it stands, and checks it where it is a template.
func (t *texts) draft(n *yamltree.Node, key string) (text string, known, ok bool) {
	if !isTemplate(n.Text) {
		return n.Text, true, true
	}
	tmpl, err := compile(n.Text)
	if err == nil {
		err = t.references(tmpl.Root, at(n), key)
	}
	if err != nil {
		t.bad(n, key, err)
		return "", false, false
	}
	return n.Text, false, true
}

func (t *texts) bad(n *yamltree.Node, key string, err error) {
	t.problems = append(t.problems, Problem{File: t.file.Path, Line: n.Line, Column: n.Column, Key: key, ID: ErrTemplate, Message: plain(err)})
}

// fill returns a function that fills templates in from outputs.
func (t *texts) fill(outputs map[string]*Output) func(n *yamltree.Node, key string) (string, bool, bool) {
	data := map[string]any{"steps": valuesOf(outputs)}
	return func(n *yamltree.Node, key string) (string, bool, bool) {
		if !isTemplate(n.Text) {
			return n.Text, true, true
		}
		var b limited
		tmpl, err := compile(n.Text)
		if err == nil {
			err = tmpl.Execute(&b, data)
		}
		if err != nil {
			t.bad(n, key, explained(err, outputs))
			return "", false, false
		}
		return b.String(), true, true
	}
}

// maxFilled bounds what one template may become.
const maxFilled = 4 << 20

// limited is a buffer that refuses to grow beyond maxFilled.
type limited struct{ strings.Builder }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxFilled {
		return 0, fmt.Errorf("the template makes more than %d MiB", maxFilled>>20)
	}
	return l.Builder.Write(p)
}

// compile parses a template. Keys that are missing are errors, also through
// index, which Go's own lets pass.
func compile(text string) (*template.Template, error) {
	return template.New("t").Option("missingkey=error").Funcs(functions()).Parse(text)
}

// functions are those that templates have besides Go's own.
func functions() template.FuncMap {
	return template.FuncMap{
		"trim":  strings.TrimSpace,
		"json":  toJSON,
		"has":   has,
		"index": index,
	}
}

// Functions describes the functions of templates, for the documents.
func Functions() [][2]string {
	return [][2]string{
		{"trim TEXT", "the text without white space at both ends, such as the newline that a command ends with"},
		{"json VALUE", "the value as JSON, a text in quotes"},
		{"has STEP KEY", "whether a step has given that value out: `has .steps.build \"exit_code\"`"},
		{"index .steps \"NAME\" \"KEY\"", "for a step whose name has a dash; a key that is missing is an error here, too"},
	}
}

func toJSON(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

func has(m map[string]any, key string) bool {
	_, ok := m[key]
	return ok
}

// index is Go's, but for keys that are missing.
func index(v any, keys ...any) (any, error) {
	for _, k := range keys {
		at := reflect.ValueOf(v)
		name, isText := k.(string)
		n, isInt := k.(int)
		switch {
		case at.Kind() == reflect.Map && isText:
			x := at.MapIndex(reflect.ValueOf(name))
			if !x.IsValid() {
				return nil, missingError{name}
			}
			v = x.Interface()
		case (at.Kind() == reflect.Slice || at.Kind() == reflect.String) && isInt:
			if n < 0 || n >= at.Len() {
				return nil, fmt.Errorf("index %d is outside 0 to %d", n, at.Len()-1)
			}
			v = at.Index(n).Interface()
		default:
			return nil, fmt.Errorf("index: %v has no %v", at.Kind(), k)
		}
	}
	return v, nil
}

type missingError struct{ key string }

func (e missingError) Error() string { return fmt.Sprintf("there is no %q", e.key) }

// references checks the outputs that a template names outright, and notes those that
// it can't do without: what stands under a condition may have asked before.
func (t *texts) references(n parse.Node, where place, key string) error {
	var errs []error
	walk(n, func(path []string, sure bool) {
		if len(path) == 0 || path[0] != "steps" {
			return
		}
		errs = append(errs, t.reference(path[1:]))
		if sure && len(path) > 2 {
			if u := (use{path[1], path[2], where, key}); !slices.Contains(t.uses, u) {
				t.uses = append(t.uses, u)
			}
		}
	})
	return errors.Join(errs...)
}

func (t *texts) reference(path []string) error {
	if len(path) == 0 {
		return nil
	}
	var before []string
	for _, s := range t.file.Steps {
		if s.Name != "" {
			before = append(before, s.Name)
		}
	}
	if !slices.Contains(before, path[0]) {
		have := "it is the first one"
		if len(before) > 0 {
			have = "there are " + strings.Join(before, ", ")
		}
		return fmt.Errorf("no step before this one is called %q%s; %s", path[0], meant(path[0], before), have)
	}
	if len(path) > 1 && !slices.Contains(outputKeys(), path[1]) {
		return fmt.Errorf("a step gives out no %q%s; there are %s", path[1], meant(path[1], outputKeys()), strings.Join(outputKeys(), ", "))
	}
	return nil
}

// walk gives every path that starts at the root: .steps.a.stdout, and $.steps
// within a with or range. A path that starts at another dot isn't known here. sure
// is false for what stands under a condition.
func walk(n parse.Node, give func(path []string, sure bool)) { walker{true, true, give}.node(n) }

// walker walks below a node: top is whether the dot is the root there.
type walker struct {
	top, sure bool
	give      func(path []string, sure bool)
}

func (w walker) node(n parse.Node) {
	switch x := n.(type) {
	case *parse.ListNode:
		if x != nil {
			for _, y := range x.Nodes {
				w.node(y)
			}
		}
	case *parse.ActionNode:
		w.node(x.Pipe)
	case *parse.PipeNode:
		if x != nil {
			for _, c := range x.Cmds {
				w.node(c)
			}
		}
	case *parse.CommandNode:
		w.command(x)
	case *parse.FieldNode:
		if w.top {
			w.give(x.Ident, w.sure)
		}
	case *parse.VariableNode:
		if x.Ident[0] == "$" {
			w.give(x.Ident[1:], w.sure)
		}
	case *parse.IfNode:
		w.branch(&x.BranchNode, w.top)
	case *parse.WithNode:
		w.branch(&x.BranchNode, false)
	case *parse.RangeNode:
		w.branch(&x.BranchNode, false)
	}
}

// command walks a function's arguments. Those of and and or, but for the first, may
// not be looked at.
func (w walker) command(x *parse.CommandNode) {
	name := ""
	if id, ok := x.Args[0].(*parse.IdentifierNode); ok {
		name = id.Ident
	}
	for i, a := range x.Args {
		inner := w
		inner.sure = w.sure && (i < 2 || name != "and" && name != "or")
		inner.node(a)
	}
	if name == "index" {
		w.index(x.Args[1:])
	}
}

func (w walker) branch(b *parse.BranchNode, top bool) {
	w.node(b.Pipe)
	w.sure = false
	w.node(b.ElseList)
	w.top = w.top && top
	w.node(b.List)
}

// index gives the path of index .steps "a" "stdout".
func (w walker) index(args []parse.Node) {
	if len(args) == 0 {
		return
	}
	var path []string
	switch x := args[0].(type) {
	case *parse.FieldNode:
		if !w.top {
			return
		}
		path = slices.Clone(x.Ident)
	case *parse.VariableNode:
		if x.Ident[0] != "$" {
			return
		}
		path = slices.Clone(x.Ident[1:])
	default:
		return
	}
	for _, a := range args[1:] {
		s, ok := a.(*parse.StringNode)
		if !ok {
			break
		}
		path = append(path, s.Text)
	}
	w.give(path, w.sure)
}

var (
	templateWords = regexp.MustCompile(`^template: [^:]*:(\d+)(:\d+)?: (executing "[^"]*" at )?`)
	missingWords  = regexp.MustCompile(`<\$?\.steps\.([A-Za-z0-9_]+)\.([a-z_]+)>: map has no entry for key`)
	missingKey    = regexp.MustCompile(`map has no entry for key "([a-z_]+)"`)
)

// plain is an error of a template without the words that only its author's
// library knows.
func plain(err error) string {
	if strings.Contains(err.Error(), "bad character U+002D") {
		return `the template: a name with a dash can't follow a dot; write index .steps "NAME" "KEY"`
	}
	return "the template: " + templateWords.ReplaceAllString(err.Error(), "")
}

// explained says why an output that is missing is missing, of which step. Where the
// template doesn't name the step outright, it may be any that lacks the output.
func explained(err error, outputs map[string]*Output) error {
	if m := missingWords.FindStringSubmatch(err.Error()); m != nil {
		if o := outputs[m[1]]; o != nil {
			if why := o.absent(m[2]); why != "" {
				return errors.New(why)
			}
		}
		return err
	}
	key := ""
	var missing missingError
	if errors.As(err, &missing) {
		key = missing.key
	} else if m := missingKey.FindStringSubmatch(err.Error()); m != nil {
		key = m[1]
	}
	var why []string
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if x := outputs[name].absent(key); x != "" {
			why = append(why, x)
		}
	}
	if len(why) == 0 {
		return err
	}
	return errors.New(strings.Join(why, "; or "))
}
