package layout

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// file is one parsed Go file of the tree.
type file struct {
	name      string // relative to the module, with slashes
	dir       string // of name; "." at the module's root
	test      bool
	generated bool
	lines     int
	fset      *token.FileSet
	ast       *ast.File
}

func (f *file) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.name, f.fset.Position(pos).Line)
}

// imports returns path and position of each import.
func (f *file) imports() map[string]token.Pos {
	m := make(map[string]token.Pos, len(f.ast.Imports))
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			m[p] = spec.Pos()
		}
	}
	return m
}

// selectors calls yield for each use of an exported name of the package that is
// imported by that path, with the way from the file down to it.
func (f *file) selectors(importPath string, yield func(name string, pos token.Pos, way []ast.Node)) {
	local := ""
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil && p == importPath {
			local = path.Base(importPath)
			if spec.Name != nil {
				local = spec.Name.Name
			}
		}
	}
	if local == "" {
		return
	}
	var way []ast.Node
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if n == nil {
			way = way[:len(way)-1]
			return true
		}
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && id.Name == local {
				yield(n.Sel.Name, n.Pos(), way)
			}
		case *ast.Ident:
			if local == "." && ast.IsExported(n.Name) {
				yield(n.Name, n.Pos(), way)
			}
		}
		way = append(way, n)
		return true
	})
}

// parse reads one file; name is relative to the module.
func parse(name string, src []byte) (*file, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &file{
		name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), generated: ast.IsGenerated(f),
		lines: bytes.Count(src, []byte("\n")), fset: fset, ast: f,
	}, nil
}

// tree parses all Go files of the module, whatever system they are for.
var tree = sync.OnceValues(func() ([]*file, error) {
	root := filepath.Join("..", "..")
	var files []*file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if p == root {
				return nil
			}
			if base == "testdata" || base == "vendor" || base == "node_modules" || base[0] == '.' || base[0] == '_' {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(base) != ".go" || base[0] == '.' || base[0] == '_' {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f, err := parse(filepath.ToSlash(rel), src)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	return files, err
})

// check reports what a rule finds in the whole tree.
func check(t *testing.T, rule func([]*file) []string) {
	t.Helper()
	files, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files were found")
	}
	for _, v := range rule(files) {
		t.Error(v)
	}
}
