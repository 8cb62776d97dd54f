package control_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

// TestEveryOperationHasItsClass walks the capabilities: whoever adds a method
// decides whether it is provisioning or a workload operation (ADR 0030).
func TestEveryOperationHasItsClass(t *testing.T) {
	type key struct{ capability, method string }
	table := map[key]control.OperationClass{}
	actions := map[string]bool{}
	for _, o := range control.Operations() {
		k := key{o.Capability, o.Method}
		if table[k] != "" {
			t.Errorf("%s.%s has two rows", o.Capability, o.Method)
		}
		table[k] = o.Class
		switch o.Class {
		case control.ClassRead, control.ClassJob, control.ClassProvisioning:
		case control.ClassWorkload:
			if !strings.HasPrefix(o.Action, "svc.") || actions[o.Action] {
				t.Errorf("%s.%s has the action %q", o.Capability, o.Method, o.Action)
			}
			actions[o.Action] = true
		default:
			t.Errorf("%s.%s has the class %q", o.Capability, o.Method, o.Class)
		}
	}
	for _, row := range sdk.Capabilities() {
		for i := range row.Type().NumMethod() {
			k := key{row.Name, row.Type().Method(i).Name}
			if table[k] == "" {
				t.Errorf("%s.%s has no class: give it a row of control.Operations, by the decision tree of ADR 0030", k.capability, k.method)
			}
			delete(table, k)
		}
	}
	for k := range table {
		t.Errorf("%s.%s is no method of a capability", k.capability, k.method)
	}
}

// TestWorkloadsUseNoProvisioning reads what workload operations are made of: no
// method of provisioning is called there, and nothing that the files of resources
// declare is used.
func TestWorkloadsUseNoProvisioning(t *testing.T) {
	forbidden := map[string]string{"ResourceDriver": "the capability of provisioning", "Resources": "the capability of provisioning"}
	for _, o := range control.Operations() {
		if o.Class == control.ClassProvisioning {
			forbidden[o.Method] = "an operation of class provisioning"
		}
	}
	for _, pattern := range []string{"resource*.go", "../cli/resource*.go"} {
		for _, f := range parse(t, pattern) {
			for _, d := range f.Decls {
				for _, name := range declared(d) {
					forbidden[name] = "declared by " + pattern
				}
			}
		}
	}
	read := 0
	for _, pattern := range []string{"workload*.go", "../cli/svc*.go"} {
		for name, f := range parse(t, pattern) {
			read++
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && forbidden[id.Name] != "" {
					t.Errorf("%s uses %s, which is %s: workload operations don't reach provisioning (ADR 0030)", name, id.Name, forbidden[id.Name])
				}
				return true
			})
		}
	}
	if read < 10 {
		t.Errorf("%d files of workload operations were read: the patterns miss them", read)
	}
}

// parse reads the files of a pattern, tests aside.
func parse(t *testing.T, pattern string) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = f
	}
	return out
}

// declared names what a declaration brings into the package; methods have no name
// there.
func declared(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var out []string
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				out = append(out, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					out = append(out, id.Name)
				}
			}
		}
		return out
	}
	return nil
}
