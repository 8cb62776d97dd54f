package config

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/yamltree"
)

// FileName is the name of a config file.
const FileName = "windlass.yaml"

// file is a config file that was read.
type file struct {
	path string
	root *yamltree.Node
}

func (f *file) origin(line, col int) Origin {
	return Origin{Kind: FromFile, Name: f.path, Line: line, Column: col}
}

// scalar returns the value at a path, nil when it isn't there or is no scalar.
func (f *file) scalar(path string) *yamltree.Node {
	if path == "" {
		return nil
	}
	at := f.root
	for _, part := range strings.Split(path, ".") {
		e := at.Get(part)
		if e == nil {
			return nil
		}
		at = e.Value
	}
	switch at.Kind {
	case yamltree.Map, yamltree.List, yamltree.Null:
		return nil
	}
	return at
}

// findFiles reads the files in force, nearest first. What can't be read or
// parsed comes back as problems.
func findFiles(ctx context.Context, r LoadRequest) ([]*file, []Problem) {
	explicit, from := r.ExplicitFile, Origin{Kind: FromFlag, Name: "config"}
	if explicit == "" {
		explicit = r.Flags["config"]
	}
	if explicit == "" {
		explicit, from = r.Env.Get("WINDLASS_CONFIG"), Origin{Kind: FromEnvironment, Name: "WINDLASS_CONFIG"}
	}
	if explicit != "" {
		if !filepath.IsAbs(explicit) {
			explicit = filepath.Join(r.Dir, explicit)
		}
		f, p := readFile(explicit, true, "")
		switch {
		case p == nil:
			return []*file{f}, nil
		case errors.Is(p.err, fs.ErrNotExist):
			return nil, []Problem{{ID: ErrUnreadable, Origin: from, Message: explicit + " doesn't exist",
				Remedy: "mend the path; `windlass init` writes a file to start from"}}
		}
		return nil, []Problem{p.Problem}
	}
	var files []*file
	var ps []Problem
	project, p := projectFile(ctx, r.Dir)
	if p != nil {
		ps = append(ps, *p)
	}
	for i, path := range []string{project, userFile(r.Env)} {
		if path == "" || len(files) > 0 && samePath(files[0].path, path) {
			continue
		}
		above := r.Dir
		if i > 0 {
			above = ""
		}
		f, rp := readFile(path, false, above)
		switch {
		case rp == nil:
			files = append(files, f)
		case errors.Is(rp.err, fs.ErrNotExist):
		default:
			ps = append(ps, rp.Problem)
		}
	}
	return files, ps
}

// projectFile looks for a file from dir upwards.
func projectFile(ctx context.Context, dir string) (string, *Problem) {
	if dir == "" {
		return "", nil
	}
	for at := filepath.Clean(dir); ctx.Err() == nil; {
		path := filepath.Join(at, FileName)
		_, err := os.Stat(path)
		switch {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return "", &Problem{ID: ErrUnreadable, Origin: Origin{Kind: FromFile, Name: path}, Message: reason(err)}
		case errors.Is(err, fs.ErrPermission):
			// A folder that may not be searched can't hold a file for us, but one
			// above may.
		}
		up := filepath.Dir(at)
		if up == at {
			return "", nil
		}
		at = up
	}
	return "", nil
}

// userFile returns the path of the user's own file, empty when there is no
// home folder. Relative XDG paths are ignored, as the specification wants.
func userFile(env Env) string {
	dir := env.Get("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := homeDir(env)
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "windlass", FileName)
}

func homeDir(env Env) string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if h := env.Get(name); filepath.IsAbs(h) {
			return h
		}
	}
	return ""
}

func samePath(a, b string) bool {
	if a == b {
		return true
	}
	ia, err := os.Stat(a)
	if err != nil {
		return false
	}
	ib, err := os.Stat(b)
	return err == nil && os.SameFile(ia, ib)
}

// readProblem is a problem with its cause.
type readProblem struct {
	Problem
	err error
}

// readFile reads and parses a file. Only one that was named may be a pipe. One
// that was found from the folder dir upwards is refused when it, or the link
// that leads to it, belongs to a stranger.
func readFile(path string, named bool, dir string) (*file, *readProblem) {
	here := Origin{Kind: FromFile, Name: path}
	fail := func(id, msg, remedy string, err error) (*file, *readProblem) {
		return nil, &readProblem{Problem{ID: id, Origin: here, Message: msg, Remedy: remedy}, err}
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail(ErrUnreadable, reason(err), "mend its permissions or name another file with --config", err)
	}
	if !info.Mode().IsRegular() && (!named || info.IsDir()) {
		return fail(ErrUnreadable, "is no regular file", "name a file with --config", nil)
	}
	h, err := os.Open(path)
	if err != nil {
		return fail(ErrUnreadable, reason(err), "mend its permissions or name another file with --config", err)
	}
	if dir != "" {
		if who := strangers(h, path, dir); who != "" {
			_ = h.Close() // nothing was written
			return fail(ErrUntrusted, "belongs to "+who, "if you trust it, name it with --config; else run from another folder", nil)
		}
	}
	data, err := io.ReadAll(io.LimitReader(h, yamltree.MaxBytes+1))
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fail(ErrUnreadable, reason(err), "", err)
	}
	if len(data) > yamltree.MaxBytes {
		return fail(ErrSyntax, fmt.Sprintf("is larger than %d KiB", yamltree.MaxBytes>>10), "", nil)
	}
	root, err := yamltree.Parse(data)
	if err != nil {
		var se *yamltree.SyntaxError
		if errors.As(err, &se) {
			here.Line, here.Column = se.Line, se.Column
			id := ErrSyntax
			if se.Duplicate {
				id = ErrDuplicateKey
			}
			return fail(id, se.Message, "", err)
		}
		return fail(ErrSyntax, err.Error(), "", err)
	}
	return &file{path: path, root: root}, nil
}

// strangers looks at the file that is open, so that none can be put in its
// place, and at the link that led there.
func strangers(h *os.File, path, dir string) string {
	for _, look := range []func() (fs.FileInfo, error){h.Stat, func() (fs.FileInfo, error) { return os.Lstat(path) }} {
		info, err := look()
		if err != nil {
			return "nobody that can be told"
		}
		if who := stranger(info, dir); who != "" {
			return who
		}
	}
	return ""
}

// reason returns the cause of a file error without its path.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Op + ": " + pe.Err.Error()
	}
	return err.Error()
}

// check returns everything in the file that doesn't fit the shape.
func (f *file) check(root *shape) []Problem {
	if f.root.Kind != yamltree.Map {
		return []Problem{{ID: ErrBadValue, Origin: f.origin(f.root.Line, f.root.Column), Message: "a config file is a mapping of keys, this is " + f.root.Kind.String()}}
	}
	return f.checkMap(f.root, root, "")
}

func (f *file) checkMap(n *yamltree.Node, s *shape, path string) []Problem {
	var ps []Problem
	at := func(e yamltree.Field) Origin { return f.origin(e.Line, e.Column) }
	for _, e := range n.Fields {
		key := join(path, e.Key)
		sub := s.keys[e.Key]
		if named := s.named(); named != nil {
			sub = named
			if msg := checkName(e.Key); msg != "" {
				ps = append(ps, Problem{ID: ErrBadValue, Origin: at(e), Key: key, Message: msg})
				continue
			}
		}
		switch {
		case sub == nil:
			ps = append(ps, unknownKey(at(e), key, e.Key, s.order))
		case sub.setting != nil:
			if msg, remedy := sub.setting.checkNode(e.Value); msg != "" {
				o := f.origin(e.Value.Line, e.Value.Column)
				if e.Value.Kind == yamltree.Null || e.Value.Kind == yamltree.Map || e.Value.Kind == yamltree.List {
					o = at(e)
				}
				ps = append(ps, Problem{ID: ErrBadValue, Origin: o, Key: key, Message: msg, Remedy: remedy})
			}
		case e.Value.Kind == yamltree.Null && path == "":
			// An empty section, such as "providers:" with all entries commented out.
		case e.Value.Kind == yamltree.Null && s.named() != nil && slices.Contains(builtin(), e.Key):
			// "docker:" alone is the provider with its defaults.
		case e.Value.Kind == yamltree.Null && path == "plugins":
			// A plugin of the folder with its defaults.
		case e.Value.Kind == yamltree.Null && path == "providers":
			ps = append(ps, noKind(at(e), key))
		case e.Value.Kind != yamltree.Map:
			ps = append(ps, Problem{ID: ErrBadValue, Origin: at(e), Key: key, Message: "wants a mapping, has " + e.Value.Kind.String()})
		default:
			ps = append(ps, f.checkMap(e.Value, sub, key)...)
			switch path {
			case "runners":
				ps = append(ps, f.checkRunner(e, key)...)
			case "plugins":
				ps = append(ps, f.checkPlugin(e, key)...)
			}
			if path == "providers" && e.Value.Get("kind") == nil && !slices.Contains(builtin(), e.Key) {
				ps = append(ps, noKind(at(e), key))
			}
		}
	}
	return ps
}

func noKind(at Origin, key string) Problem {
	return Problem{ID: ErrMissingKey, Origin: at, Key: key, Message: "has no kind", Remedy: "add kind: and the kind of backend, such as docker"}
}

func unknownKey(at Origin, path, key string, known []string) Problem {
	return Problem{ID: ErrUnknownKey, Origin: at, Key: path, Message: "is not known" + meant(key, known), Remedy: "here may stand " + strings.Join(known, ", ")}
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "." + b
}
