package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// find returns the row that covers a package, and the unit of it that the
// package belongs to. dir is relative to the module.
func find(table []layer, dir string) (row int, unit string) {
	row = -1
	longest := -1
	for i, l := range table {
		base, star := strings.CutSuffix(l.path, "/*")
		rest, ok := under(base, dir)
		if !ok || star && rest == "" || len(base) <= longest {
			continue
		}
		row, unit, longest = i, base, len(base)
		if star {
			first, _, _ := strings.Cut(rest, "/")
			unit = base + "/" + first
		}
	}
	return row, unit
}

// under reports whether dir lies in the subtree of base, and where in it.
func under(base, dir string) (rest string, ok bool) {
	if dir == base {
		return "", true
	}
	return strings.CutPrefix(dir, base+"/")
}

// covered reports whether a name in may or never means the row at, in which the
// unit lies. A row with a star may be named as a whole or by a folder of it.
func covered(name string, at layer, unit string) bool {
	return name == at.path || name == unit || name == "*" && !at.testing
}

// imports checks every import of ours, and of std-only rows every import,
// against the table.
func imports(table []layer) func([]*file) []string {
	return func(files []*file) (bad []string) {
		for _, f := range files {
			row, unit := find(table, f.dir)
			if row < 0 {
				bad = append(bad, fmt.Sprintf("%s: package %s has no layer: give it a row in internal/layout/table_test.go", f.name, f.dir))
				continue
			}
			found := f.imports()
			for _, imp := range slices.Sorted(maps.Keys(found)) {
				if why := refusal(table, row, unit, imp, f.test); why != "" {
					bad = append(bad, fmt.Sprintf("%s: %s may not import %s: %s", f.at(found[imp]), f.dir, imp, why))
				}
			}
		}
		return bad
	}
}

// refusal says why a file of that row and unit may not import a package, or
// nothing when it may.
func refusal(table []layer, row int, unit, imp string, test bool) string {
	from := table[row]
	dir, ours := under(module, imp)
	if !ours {
		if from.stdOnly && !test && !standard(imp) {
			return "this layer stands on the standard library alone"
		}
		return ""
	}
	to, toUnit := find(table, dir)
	if to < 0 {
		return "it has no layer"
	}
	target := table[to]
	named := func(n string) bool { return covered(n, target, toUnit) }
	switch {
	case to == row && unit == toUnit:
		return ""
	case slices.ContainsFunc(from.never, named):
		return "its layer forbids it, in tests too"
	case test && (target.testing || to < row):
		return ""
	case target.testing && !from.testing:
		return "only tests may"
	case from.root, target.open && !from.stdOnly, slices.ContainsFunc(from.may, named):
		return ""
	case test:
		return "imports go down only"
	}
	return "its layer doesn't list it"
}

// standard reports whether an import path is of the standard library: no other
// may have a first element without a dot.
func standard(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".") && imp != "C"
}

// getters are the functions of os and syscall that read or change the
// environment.
var getters = []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv"}

func readsEnvironment(files []*file) (bad []string) {
	for _, f := range files {
		if f.test || slices.ContainsFunc(environment, func(p string) bool { _, ok := under(p, f.dir); return ok }) {
			continue
		}
		for _, pkg := range []string{"os", "syscall"} {
			f.selectors(pkg, func(name string, pos token.Pos, _ []ast.Node) {
				if slices.Contains(getters, name) {
					bad = append(bad, fmt.Sprintf("%s: %s.%s: only %s touch the environment, the rest is told", f.at(pos), pkg, name, strings.Join(environment, ", ")))
				}
			})
		}
	}
	return bad
}

func hasInit(files []*file) (bad []string) {
	for _, f := range files {
		if f.generated {
			continue
		}
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				bad = append(bad, fmt.Sprintf("%s: init function: return a value and let the composition root call", f.at(fn.Pos())))
			}
		}
	}
	return bad
}

func tooLong(files []*file) (bad []string) {
	for _, f := range files {
		if !f.generated && f.lines > maxLines {
			bad = append(bad, fmt.Sprintf("%s: %d lines, %d are the most: a file holds one idea", f.name, f.lines, maxLines))
		}
	}
	return bad
}

func badName(files []*file) (bad []string) {
	seen := map[string]bool{}
	for _, f := range files {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		if seen[f.dir+" "+name] {
			continue
		}
		seen[f.dir+" "+name] = true
		switch {
		case slices.Contains(vague, name):
			bad = append(bad, fmt.Sprintf("%s: package %s: the name says nothing of what it is for", f.name, name))
		case name != strings.ToLower(name) || strings.Contains(name, "_"):
			bad = append(bad, fmt.Sprintf("%s: package %s: a package is one lowercase noun", f.name, name))
		case name != "main" && f.dir != "." && name != path.Base(f.dir):
			bad = append(bad, fmt.Sprintf("%s: package %s is not named as its folder", f.name, name))
		}
	}
	return bad
}

func noPackageComment(files []*file) (bad []string) {
	said := map[string]bool{}
	for _, f := range files {
		if f.test {
			continue
		}
		want := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			want = "Command "
		}
		said[f.dir] = said[f.dir] || f.ast.Doc != nil && (strings.HasPrefix(f.ast.Doc.Text(), want) || f.generated)
	}
	for _, dir := range slices.Sorted(maps.Keys(said)) {
		if !said[dir] {
			bad = append(bad, fmt.Sprintf("%s: no file has a package comment that begins with Package %s, or Command for a main", dir, path.Base(dir)))
		}
	}
	return bad
}

// sleeps finds time.Sleep in test files, but for the virtual time of a function
// literal that is handed to synctest.Test, and for a double that is meant to be
// slow, which a comment on the line says: //sleep: and the reason.
func sleeps(files []*file) (bad []string) {
	for _, f := range files {
		if !f.test {
			continue
		}
		excused := map[int]bool{}
		for _, g := range f.ast.Comments {
			for _, c := range g.List {
				if why, ok := strings.CutPrefix(c.Text, "//sleep: "); ok && strings.TrimSpace(why) != "" {
					excused[f.fset.Position(c.Pos()).Line] = true
				}
			}
		}
		f.selectors("time", func(name string, pos token.Pos, way []ast.Node) {
			if name == "Sleep" && !inBubble(way) && !excused[f.fset.Position(pos).Line] {
				bad = append(bad, fmt.Sprintf("%s: time.Sleep in a test: use testing/synctest, a channel or internal/testwait", f.at(pos)))
			}
		})
	}
	return bad
}

// deadConnections finds transports of HTTP/2 that don't notice a dead connection.
func deadConnections(files []*file) (bad []string) {
	for _, f := range files {
		if f.test {
			continue
		}
		f.selectors("net/http", func(name string, pos token.Pos, way []ast.Node) {
			made, ok := way[len(way)-1].(*ast.CompositeLit)
			if name != "Transport" || !ok {
				return
			}
			set := map[string]bool{}
			for _, e := range made.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok {
						set[key.Name] = true
					}
				}
			}
			if set["ForceAttemptHTTP2"] && !set["HTTP2"] {
				bad = append(bad, fmt.Sprintf("%s: a dead connection of this transport takes call after call: set HTTP2 to reach.Pings()", f.at(pos)))
			}
		})
	}
	return bad
}

func inBubble(way []ast.Node) bool {
	for i, n := range way {
		call, ok := n.(*ast.CallExpr)
		if !ok || i+1 >= len(way) {
			continue
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Test" {
			continue
		}
		id, ok := sel.X.(*ast.Ident)
		if _, lit := way[i+1].(*ast.FuncLit); ok && lit && id.Name == "synctest" {
			return true
		}
	}
	return false
}
