// Package resource reads files of resources: what is to stand on which provider.
//
// A file is read strictly, and checked as a whole before anything is done: every
// problem has its file, line and column, those of configs included.
package resource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// ErrFile is the stable name of all that is wrong with a file.
const ErrFile = "resource.file"

const op = "read resources"

// Entry is one resource of a file.
type Entry struct {
	// Provider is the configured name.
	Provider string
	Spec     sdk.ResourceSpec

	key    string
	places map[string]config.Origin
	config *yamltree.Node
	// odd are keys whose values are of another kind than they must be.
	odd map[string]bool
}

// File is a file that was read, and is sound as far as it can be told without knowing
// its providers.
type File struct {
	// Path is as it was given.
	Path string
	// Entries are in the file's order, which is the order of making: a resource comes
	// behind those that it depends on.
	Entries []Entry

	// wrong is what was found wrong with the file as it was read.
	wrong []config.Problem
}

// Read reads a file; "-" is standard input, and dir what a relative path starts at.
// What is wrong with it comes back all at once, as *config.Invalid in an *sdk.Error of
// InvalidArgument; beside that comes what could be read, for Check to find the rest. The end of ctx ends the wait for one who has yet to write the file.
func Read(ctx context.Context, path, dir string, stdin io.Reader) (File, error) {
	t, err := yamltree.Read(ctx, yamltree.Source{Path: path, Dir: dir, Stdin: stdin, Op: op, What: "resources", ID: ErrFile})
	if err != nil {
		return File{}, err
	}
	return Parse(t.Name, t.Data)
}

// Parse reads the text of a file.
func Parse(path string, data []byte) (File, error) {
	r := &reader{file: File{Path: path}}
	if len(data) > yamltree.MaxBytes {
		r.bad(0, 0, "", "is larger than %d KiB", yamltree.MaxBytes>>10)
		return File{}, r.err()
	}
	root, err := yamltree.Parse(data)
	if err != nil {
		var se *yamltree.SyntaxError
		if errors.As(err, &se) {
			r.bad(se.Line, se.Column, "", "%s", se.Message)
		} else {
			r.bad(0, 0, "", "%v", err)
		}
		return File{}, r.err()
	}
	r.root(root)
	r.file.wrong = r.problems
	return r.file, r.err()
}

// Choose returns the entries of these names, in the file's order; none are all.
func (f File) Choose(names []string) ([]Entry, error) {
	if len(names) == 0 {
		return f.Entries, nil
	}
	var out []Entry
	for _, e := range f.Entries {
		if slices.Contains(names, e.Spec.Name) {
			out = append(out, e)
		}
	}
	var have []string
	for _, e := range f.Entries {
		have = append(have, e.Spec.Name)
	}
	for _, n := range names {
		if !slices.Contains(have, n) {
			return nil, &sdk.Error{Code: sdk.NotFound, Op: "find resource", ID: ErrFile, Err: fmt.Errorf("%s has no %q%s", f.Path, n, meant(n, have)),
				Remedy: "it has " + strings.Join(have, ", ")}
		}
	}
	return out, nil
}

// Check holds all entries against their providers: driver returns a provider's driver,
// nil where its resources aren't known. What is wrong comes back as from Read, with what
// that found.
func Check(f File, driver func(provider string) (*sdk.Driver, error)) error {
	r := &reader{file: f, problems: slices.Clone(f.wrong)}
	for _, e := range f.Entries {
		if e.Provider == "" {
			continue
		}
		d, err := driver(e.Provider)
		if err != nil {
			at := e.places["provider"]
			r.bad(at.Line, at.Column, e.key+".provider", "%s", plainWords(err))
			continue
		}
		if d == nil || len(d.Resources) == 0 {
			continue
		}
		r.fits(e, d)
	}
	return r.err()
}

// Finding is what a provider says against an entry.
type Finding struct {
	Entry   Entry
	Problem sdk.Problem
	// ID is the problem's stable name.
	ID string
}

// Refuse is the error of findings, of which there is at least one: each at its place in
// the file, as from Read, and of the class and name of the first.
func Refuse(op string, found []Finding) error {
	r := &reader{}
	for _, f := range found {
		r.problems = append(r.problems, config.Problem{ID: f.ID, Origin: place(f.Entry, f.Problem.Field), Key: f.Entry.key + "." + f.Problem.Field, Message: words(f.Problem)})
	}
	r.sort()
	return &sdk.Error{Code: found[0].Problem.Code, Op: op, ID: found[0].ID, Err: &config.Invalid{Problems: r.problems}}
}

// place is where a field of an entry stands: itself, or what is around it.
func place(e Entry, field string) config.Origin {
	key, _, _ := strings.Cut(field, ".")
	if key == "config" {
		return locate(e, field)
	}
	if at, ok := e.places[key]; ok {
		return at
	}
	return e.places[""]
}

// plainWords says what is wrong without saying where.
func plainWords(err error) string {
	if ps := config.ProblemsOf(err); len(ps) == 1 {
		return ps[0].Message
	}
	return err.Error()
}

func (r *reader) fits(e Entry, d *sdk.Driver) {
	var types []string
	for _, t := range d.Resources {
		types = append(types, t.Type)
		if t.Type != e.Spec.Type {
			continue
		}
		for _, p := range e.problems(t) {
			r.problems = append(r.problems, config.Problem{ID: ErrFile, Origin: place(e, p.Field), Key: e.key + "." + p.Field, Message: words(p)})
		}
		return
	}
	if e.Spec.Type == "" {
		return
	}
	at := e.places["type"]
	r.bad(at.Line, at.Column, e.key+".type", "%q is no type of %s%s; there are %s", e.Spec.Type, d.Kind, meant(e.Spec.Type, types), strings.Join(types, ", "))
}

// problems are what a type says against an entry, without what the reader has said.
func (e Entry) problems(t sdk.ResourceType) []sdk.Problem {
	tell := t.Problems
	if tell == nil {
		tell = func(s sdk.ResourceSpec) []sdk.Problem { return t.Config.Validate("config", s.Config) }
	}
	return slices.DeleteFunc(tell(e.Spec), func(p sdk.Problem) bool {
		key, _, _ := strings.Cut(p.Field, ".")
		return e.odd[key] || key == "name" && e.Spec.Name == ""
	})
}

// words are a problem's, with the value in quotes: what a schema says has it as JSON.
func words(p sdk.Problem) string {
	switch {
	case p.Value == "":
		return p.Message
	case json.Valid([]byte(p.Value)):
		return p.Value + " " + p.Message
	}
	return strconv.Quote(p.Value) + " " + p.Message
}

// locate finds where a member of an entry's config stands: itself, or the nearest that
// is around it.
func locate(e Entry, field string) config.Origin {
	at := e.places["config"]
	if at.Line == 0 {
		at = e.places[""]
	}
	n := e.config
	path := strings.FieldsFunc(strings.TrimPrefix(field, "config"), func(r rune) bool { return strings.ContainsRune(".[]", r) })
	for i := 0; n != nil && i < len(path); i++ {
		switch n.Kind {
		case yamltree.Map:
			// A key may have dots in it.
			f := n.Get(path[i])
			for j := i + 1; f == nil && j < len(path); j++ {
				if f = n.Get(strings.Join(path[i:j+1], ".")); f != nil {
					i = j
				}
			}
			if f == nil {
				return at
			}
			at.Line, at.Column, n = f.Line, f.Column, f.Value
		case yamltree.List:
			var k int
			if _, err := fmt.Sscan(path[i], &k); err != nil || k < 0 || k >= len(n.Items) {
				return at
			}
			n = n.Items[k]
			at.Line, at.Column = n.Line, n.Column
		default:
			return at
		}
	}
	return at
}

func meant(word string, candidates []string) string {
	if near := sdk.Nearest(word, candidates); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}

// reader collects what is wrong with a file.
type reader struct {
	file     File
	problems []config.Problem
	// names are those of all entries, also of those that aren't read yet.
	names []string
}

func (r *reader) at(line, col int) config.Origin {
	return config.Origin{Kind: config.FromFile, Name: r.file.Path, Line: line, Column: col}
}

func (r *reader) bad(line, col int, key, format string, args ...any) {
	r.problems = append(r.problems, config.Problem{ID: ErrFile, Origin: r.at(line, col), Key: key, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	r.sort()
	return &sdk.Error{Code: sdk.InvalidArgument, Op: op, ID: ErrFile, Err: &config.Invalid{Problems: r.problems}}
}

// sort brings what was found into the file's order.
func (r *reader) sort() {
	slices.SortStableFunc(r.problems, func(a, b config.Problem) int {
		return cmp.Or(cmp.Compare(a.Origin.Line, b.Origin.Line), cmp.Compare(a.Origin.Column, b.Origin.Column))
	})
}
