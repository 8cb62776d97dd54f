package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/yamltree"
)

// File is a step file that was read. Whether it is sound is told by Run: what is
// wrong with the file hides nothing of what the environments refuse in it.
type File struct {
	// Path is as it was given, Dir the absolute folder that relative sources of
	// mounts start at.
	Path, Dir string
	Steps     []*Step

	// problems are what is wrong with the file by itself, which Run tells
	// together with what the environments refuse.
	problems []Problem
}

// Step is one step of a file.
type Step struct {
	// Name is its own in the file.
	Name string
	// Line is where it begins.
	Line int
	// Choice says where it runs.
	Choice sandbox.Choice
	// FailOnError: the file ends when the command fails.
	FailOnError bool
	// placeless: what it says of where it runs is wrong, so Choice isn't its.
	placeless bool

	file   *File
	index  int
	config *yamltree.Field
	texts  texts
	// draft is the execution with placeholders for what isn't known yet, which is
	// what templates decide, and what is wrong and told of already. Later has the
	// keys of that.
	draft sandbox.Exec
	later []string
	// uses are the outputs of earlier steps that its templates can't do without.
	uses []use
}

// use is an output that a template names outright, and where.
type use struct {
	step, output string
	place        place
	key          string
}

// key is where the step's config stands in the file.
func (s *Step) key() string { return fmt.Sprintf("steps[%d].config", s.index) }

// MaxFile is the most bytes of a step file.
const MaxFile = yamltree.MaxBytes

// Read reads a step file; "-" reads stdin. Dir is the absolute folder that a
// relative path starts at, and relative sources of mounts in a file that comes
// from stdin. What is no YAML comes back as *Invalid in an *sdk.Error of
// InvalidArgument; all else that is wrong with the file is for Run to tell.
//
// The end of ctx ends the wait for one who has yet to write the file: a
// terminal, a pipe. What is written then is read and dropped.
func Read(ctx context.Context, path, dir string, stdin io.Reader) (*File, error) {
	t, err := yamltree.Read(ctx, yamltree.Source{Path: path, Dir: dir, Stdin: stdin, Op: opRead, What: "steps", ID: ErrFile})
	if err != nil {
		return nil, err
	}
	return parseFile(t.Name, t.Dir, t.Data)
}

const opRead = "read steps"

// parseFile reads the text of a step file.
func parseFile(path, dir string, data []byte) (*File, error) {
	f := &File{Path: path, Dir: dir}
	if len(data) > MaxFile {
		return nil, invalid(opRead, []Problem{{File: path, ID: ErrFile, Message: fmt.Sprintf("is larger than %d KiB", MaxFile>>10)}})
	}
	root, err := yamltree.Parse(data)
	if err != nil {
		p := Problem{File: path, ID: ErrFile, Message: err.Error()}
		var se *yamltree.SyntaxError
		if errors.As(err, &se) {
			p.Line, p.Column, p.Message = se.Line, se.Column, se.Message
		}
		return nil, invalid(opRead, []Problem{p})
	}
	r := &reader{file: f}
	r.root(root)
	f.problems = r.problems
	return f, nil
}

// reader collects what is wrong with a file.
type reader struct {
	file     *File
	problems []Problem
}

func (r *reader) bad(n place, key, format string, args ...any) {
	r.add(n, key, ErrFile, fmt.Sprintf(format, args...), "")
}

func (r *reader) add(n place, key, id, message, remedy string) {
	r.problems = append(r.problems, Problem{File: r.file.Path, Line: n.line, Column: n.col, Key: key, ID: id, Message: message, Remedy: remedy})
}

// place is a line and column.
type place struct{ line, col int }

func at(n *yamltree.Node) place    { return place{n.Line, n.Column} }
func keyAt(f yamltree.Field) place { return place{f.Line, f.Column} }

func (r *reader) root(n *yamltree.Node) {
	if n.Kind != yamltree.Map {
		r.bad(at(n), "", "a step file is a mapping with steps:, this is %s", n.Kind)
		return
	}
	n = r.known(n, "", []entry{{name: "steps", required: true}})
	steps := n.Get("steps")
	switch {
	case steps == nil:
	case steps.Value.Kind != yamltree.List:
		r.bad(keyAt(*steps), "steps", "wants a list, has %s", steps.Value.Kind)
	case len(steps.Value.Items) == 0:
		r.bad(keyAt(*steps), "steps", "is empty")
	default:
		for i, item := range steps.Value.Items {
			r.step(i, item)
		}
	}
}

// known refuses keys that the entries don't have, and wants those that are
// required. It returns the mapping with each mistyped key under the name that was
// meant, so that what stands there is checked in the same round.
func (r *reader) known(n *yamltree.Node, key string, es []entry, more ...string) *yamltree.Node {
	have := append(names(es), more...)
	mended := *n
	mended.Fields = slices.Clone(n.Fields)
	for i, f := range n.Fields {
		if slices.Contains(have, f.Key) {
			continue
		}
		near, hint := nearest(f.Key, have), ""
		if near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
			if mended.Get(near) == nil {
				mended.Fields[i].Key = near
			}
		}
		r.bad(keyAt(f), join(key, f.Key), "is not known%s; here may stand %s", hint, strings.Join(have, ", "))
	}
	for _, e := range es {
		if e.required && mended.Get(e.name) == nil {
			r.bad(at(n), key, "has no %s", e.name)
		}
	}
	return &mended
}

func (r *reader) step(i int, n *yamltree.Node) {
	key := fmt.Sprintf("steps[%d]", i)
	if n.Kind != yamltree.Map {
		r.bad(at(n), key, "a step is a mapping with name, type and config, this is %s", n.Kind)
		return
	}
	n = r.known(n, key, stepEntries(), "config")
	s := &Step{Line: n.Line, FailOnError: true, file: r.file, index: i, config: n.Get("config")}
	name, _ := r.fixed(n.Get("name"), key, find(stepEntries(), "name"))
	s.Name = name
	if f := n.Get("name"); f != nil && f.Value.Kind == yamltree.Text && f.Value.Text != "" {
		if msg := checkName(name); msg != "" {
			r.bad(at(f.Value), key+".name", "%s", msg)
		}
		for _, other := range r.file.Steps {
			if other.Name == name && name != "" {
				r.bad(at(f.Value), key+".name", "the step on line %d is called %q too", other.Line, name)
			}
		}
	}
	r.stepType(n.Get("type"), key)
	if c := s.config; c == nil {
		r.bad(at(n), key, "has no config")
	} else if c.Value.Kind != yamltree.Map {
		r.bad(keyAt(*c), key+".config", "wants a mapping, has %s", c.Value.Kind)
	} else {
		r.config(s, key+".config")
	}
	r.file.Steps = append(r.file.Steps, s)
}

func (r *reader) stepType(f *yamltree.Field, key string) {
	if f == nil || f.Value.Kind != yamltree.Text {
		r.fixed(f, key, &entry{name: "type"})
		return
	}
	t := f.Value.Text
	if t == TypeSandboxExec {
		return
	}
	for _, x := range replaced() {
		if t == x[0] {
			r.add(at(f.Value), key+".type", ErrFile, t+" is no step here", "its command is "+x[1])
			return
		}
	}
	r.bad(at(f.Value), key+".type", "%q is no type of step%s; there is %s", t, meant(t, []string{TypeSandboxExec}), TypeSandboxExec)
}

// config checks a step's config, and works out what is fixed in it.
func (r *reader) config(s *Step, key string) {
	n := r.known(s.config.Value, key, entries())
	s.config = &yamltree.Field{Key: s.config.Key, Line: s.config.Line, Column: s.config.Column, Value: n}
	get := func(name string) string {
		f := n.Get(name)
		text, ok := r.fixed(f, key, find(entries(), name))
		if f != nil && !ok {
			s.placeless = true
		}
		return text
	}
	s.Choice = sandbox.Choice{ExecEnv: get("exec_env"), Provider: get("provider"), ArgoModule: get("argo_module")}
	if f := n.Get("fail_on_error"); f != nil {
		s.FailOnError = r.boolean(f, key)
	}
	s.texts = texts{file: r.file, step: s}
	d := decoder{reader: r, step: s, text: s.texts.draft}
	s.draft = d.exec(n, key)
	s.later = d.later
	s.uses = s.texts.uses
	r.problems = append(r.problems, s.texts.problems...)
}

// fixed reads a text that is no template; empty when there is none.
func (r *reader) fixed(f *yamltree.Field, key string, e *entry) (string, bool) {
	if f == nil {
		return "", false
	}
	key = join(key, e.name)
	switch {
	case f.Value.Kind != yamltree.Text:
		r.bad(keyAt(*f), key, "wants text, has %s%s", f.Value.Kind, quoted(f.Value))
	case f.Value.Text == "":
		r.bad(at(f.Value), key, "is empty; %s", valueless(e.required))
	case isTemplate(f.Value.Text):
		r.bad(at(f.Value), key, "can't be a template: it is settled before the first step starts")
	case len(e.enum) > 0 && !slices.Contains(e.enum, f.Value.Text):
		r.bad(at(f.Value), key, "%q is none of %s%s", f.Value.Text, strings.Join(e.enum, ", "), meant(f.Value.Text, e.enum))
	default:
		return f.Value.Text, true
	}
	return "", false
}

func (r *reader) boolean(f *yamltree.Field, key string) bool {
	if f.Value.Kind != yamltree.Bool {
		r.bad(keyAt(*f), join(key, f.Key), "wants true or false, has %s", f.Value.Kind)
		return true
	}
	return f.Value.Text == "true"
}

// valueless says what to do about a key without a value.
func valueless(required bool) string {
	if required {
		return "give it a value"
	}
	return "give it a value or remove the key"
}

// quoted says how a scalar that isn't text becomes one.
func quoted(n *yamltree.Node) string {
	switch n.Kind {
	case yamltree.Int, yamltree.Float, yamltree.Bool:
		return "; put it in quotes"
	case yamltree.Null:
		return "; " + valueless(false)
	}
	return ""
}

const maxName = 63

func checkName(s string) string {
	if s == "" || len(s) > maxName {
		return fmt.Sprintf("a name has 1 to %d characters", maxName)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && (c == '-' || c == '_')
		if !ok {
			return "a name has letters, digits, dashes and underscores, and starts with a letter or digit"
		}
	}
	return ""
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}
