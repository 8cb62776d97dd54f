package cli

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

func TestDescribe(t *testing.T) {
	cause := &sdk.Error{Code: sdk.Unavailable, Op: "run job", Provider: "docker", ID: "queue.full", Remedy: "start the engine", Retryable: true, Err: errors.New("no engine answers")}
	b := describe(&runError{sdk.ID{15: 1}, fmt.Errorf("wait: %w", cause)})
	want := ErrorBody{ID: "queue.full", Code: "Unavailable", Message: "wait: run job: provider docker: no engine answers", Remedy: "start the engine",
		Provider: "docker", Run: sdk.ID{15: 1}.String(), Retry: true}
	if fmt.Sprintf("%+v", b) != fmt.Sprintf("%+v", want) {
		t.Errorf("describe:\n got %+v\nwant %+v", b, want)
	}
	// What comes from another process is text, in which the advice may stand again.
	if b := describe(&sdk.Error{Op: "host plugin", Remedy: "look at it", Err: errors.New("no luck; look at it")}); b.Message != "host plugin: no luck" || b.Remedy != "look at it" {
		t.Errorf("%+v", b)
	}
	if b := describe(errors.New("x")); b.ID != "code.unknown" || b.Code != "Unknown" {
		t.Errorf("%+v", b)
	}
	if b := describe(&usageError{code: 2, command: "windlass ps", err: errors.New("x")}); b.ID != idUsage || b.Remedy != "see windlass ps --help" {
		t.Errorf("%+v", b)
	}
	doubt := &sdk.Error{Code: sdk.Unknown, Op: "apply", Err: &sdk.Error{Code: sdk.Unknown, ID: control.ErrResourceUnconfirmed, Remedy: "look", Err: errors.New("the reply was lost")}}
	if b := describe(fmt.Errorf("%w: %w", errInterrupted, doubt)); b.ID != control.ErrResourceUnconfirmed || b.Remedy != "look" || !strings.Contains(b.Message, "the reply was lost") {
		t.Errorf("%+v", b)
	}
	want = ErrorBody{ID: idInterrupted, Code: "Canceled", Message: "interrupted: run job: provider docker: no engine answers", Remedy: "start the engine", Provider: "docker", Retry: true}
	if b := describe(fmt.Errorf("%w: %w", errInterrupted, cause)); fmt.Sprintf("%+v", b) != fmt.Sprintf("%+v", want) {
		t.Errorf("describe:\n got %+v\nwant %+v", b, want)
	}
	for _, err := range []error{errInterrupted, &interruptedError{cause}, fmt.Errorf("x: %w", errInterrupted), fmt.Errorf("%w: %w", errInterrupted, &interruptedError{cause})} {
		if b := describe(err); b.ID != idInterrupted || b.Code != "Canceled" || b.Message != "interrupted" {
			t.Errorf("%v: %+v", err, b)
		}
	}
}

// TestErrorsAreOneLineEach checks that hostile text can't forge lines or reach
// the terminal.
func TestErrorsAreOneLineEach(t *testing.T) {
	w := newWorld(t)
	w.start(nil)
	writeError(w.f.Streams, errors.New("a\nwindlass: all is well\x1b[2J\x9b1m"))
	if s := w.err.String(); strings.Count(s, "\n") != 2 || strings.IndexByte(s, 0x1b) >= 0 || strings.IndexByte(s, 0x9b) >= 0 {
		t.Errorf("%q", s)
	}
}

func TestConfigProblems(t *testing.T) {
	w := newWorld(t)
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(w.dir, "windlass.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("default_providr: docker\n")
	text := w.fails(ExitWindlass, "ps")
	if !strings.Contains(text, "windlass.yaml:1:1") || !strings.Contains(text, "default_provider") || !strings.Contains(text, "windlass explain config.unknown-key") {
		t.Errorf("%s", text)
	}
	write("default_providr: docker\nproviders: 5\n")
	text = w.fails(ExitWindlass, "ps")
	if !strings.Contains(text, "2 problems") || strings.Count(text, "windlass.yaml:") != 2 || strings.Contains(text, `\n`) {
		t.Errorf("%s", text)
	}
	w.fails(ExitWindlass, "ps", "--json")
	validate(t, w.out.String())
	w.fails(ExitFaults, "config", "validate", "--json")
	validate(t, w.out.String())
	if !strings.Contains(w.out.String(), `"status": "faults"`) {
		t.Errorf("%s", w.out.String())
	}
	// What only the drivers see is told in the same round, by every command.
	write("default_providr: docker\nproviders: {a: {kind: dokcer}, b: {kind: docker, config: {hots: x}}}\n")
	for _, text := range []string{w.fails(ExitWindlass, "ps"), func() string { w.fails(ExitFaults, "config", "validate"); return w.out.String() }()} {
		for _, key := range []string{"default_providr", "providers.a.kind", "providers.b.config.hots"} {
			if !strings.Contains(text, key) {
				t.Errorf("%s isn't told of in\n%s", key, text)
			}
		}
	}
	write("default_provider: local\n")
	w.ok("config", "validate")
	w.ok("config", "validate", "--json")
	validate(t, w.out.String())
}

// TestCatalog checks that every error ID that occurs in the code is explained,
// and that each explanation says what to do.
func TestCatalog(t *testing.T) {
	seen, texts := map[string]bool{}, map[string]string{}
	form := regexp.MustCompile(`^[a-z]+(\.[a-z]+(-[a-z]+)*)+$`)
	for _, e := range Catalog() {
		if seen[e.ID] {
			t.Errorf("%s is explained twice", e.ID)
		}
		seen[e.ID] = true
		for what, text := range map[string]string{"a title": e.Title, "a cause": e.Cause, "a remedy": e.Remedy} {
			if len(text) < 10 || !strings.HasSuffix(text, ".") || strings.Contains(text, "`") {
				t.Errorf("%s lacks %s of whole sentences without marks: %q", e.ID, what, text)
			}
			if other, ok := texts[text]; ok && what != "a remedy" {
				t.Errorf("%s and %s have the same words: %q", e.ID, other, text)
			}
			texts[text] = e.ID
		}
		if !form.MatchString(e.ID) {
			t.Errorf("%s isn't written as IDs are", e.ID)
		}
	}
	named, used := errorIDs(t)
	for id, where := range named {
		if !seen[id] {
			t.Errorf("%s: the error ID %s isn't in the catalog", where, id)
		}
	}
	for id := range seen {
		if !used[id] && !strings.HasPrefix(id, "code.") {
			t.Errorf("%s is explained, and no error has it", id)
		}
	}
}

// errorIDs finds the IDs that errors get: texts of sdk.Error's member ID, and constants
// that are named as IDs are. used are all texts and constants that stand in code, but
// for those in the explanations themselves.
func errorIDs(t *testing.T) (named map[string]string, used map[string]bool) {
	t.Helper()
	named, used = map[string]string{}, map[string]bool{}
	form, id := regexp.MustCompile(`^[a-z]+\.[a-z-]+$`), regexp.MustCompile(`^(id|[Ee]rrID|Err)[A-Z]`)
	constants := map[string]string{} // of a package, by PACKAGE.NAME
	var uses []string
	for _, root := range []string{"../../sdk", "../../internal", "../../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, path, nil, 0)
			if err != nil {
				return nil //nolint:nilerr // somebody is writing it
			}
			pkg := f.Name.Name
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					return n.Name.Name != "Explanations" && n.Name.Name != "Catalog" && !strings.HasSuffix(n.Name.Name, "Entries")
				case *ast.ValueSpec:
					for i, name := range n.Names {
						if i >= len(n.Values) {
							continue
						}
						if lit, ok := n.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
							text, _ := strconv.Unquote(lit.Value)
							constants[pkg+"."+name.Name] = text
							if id.MatchString(name.Name) && form.MatchString(text) {
								named[text] = fset.Position(lit.Pos()).String()
							}
						}
					}
					return false
				case *ast.CompositeLit:
					for _, e := range n.Elts {
						kv, ok := e.(*ast.KeyValueExpr)
						if key, isID := keyName(kv); ok && isID && key == "ID" && isError(n.Type) {
							if lit, ok := kv.Value.(*ast.BasicLit); ok {
								if text, err := strconv.Unquote(lit.Value); err == nil {
									named[text] = fset.Position(lit.Pos()).String()
								}
							}
						}
					}
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
						used[text] = true
					}
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok {
						uses = append(uses, x.Name+"."+n.Sel.Name)
					}
				case *ast.Ident:
					uses = append(uses, pkg+"."+n.Name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range uses {
		if text, ok := constants[name]; ok {
			used[text] = true
		}
	}
	if len(named) < 50 {
		t.Fatalf("only %d error IDs were found", len(named))
	}
	return named, used
}

func isError(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		x, ok := e.X.(*ast.Ident)
		return ok && x.Name == "sdk" && e.Sel.Name == "Error"
	case *ast.Ident:
		return e.Name == "Error"
	}
	return false
}

func keyName(kv *ast.KeyValueExpr) (string, bool) {
	if kv == nil {
		return "", false
	}
	id, ok := kv.Key.(*ast.Ident)
	if !ok {
		return "", false
	}
	return id.Name, true
}

func TestExplain(t *testing.T) {
	w := newWorld(t)
	for _, e := range explanations() {
		if out := w.ok("explain", e.ID); !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(e.Title), " ")) {
			t.Errorf("explain %s: %s", e.ID, out)
		}
	}
	for _, e := range explanations() {
		if e.Cause == "" || e.Remedy == "" {
			t.Errorf("%s has no cause or no remedy: %+v", e.ID, e)
		}
	}
	if out := w.ok("explain", "ledger"); !strings.Contains(out, "ledger.full") || strings.Contains(out, "run.open") {
		t.Errorf("a part of IDs: %s", out)
	}
	validate(t, w.ok("explain", "ledger", "--json"))
	if out := w.ok("explain", "42"); !strings.Contains(out, "job's own") || strings.Contains(out, "signal") {
		t.Errorf("42: %s", out)
	}
	if out := w.ok("explain", "139"); !strings.Contains(out, "here 11") {
		t.Errorf("139: %s", out)
	}
	w.fails(ExitWindlass, "explain", "256")
	if text := w.fails(ExitWindlass, "explain", "oom_kiled"); !strings.Contains(text, `did you mean "oom_killed"?`) {
		t.Errorf("%s", text)
	}
	w.ok("explain", "--json")
	validate(t, w.out.String())
	w.ok("explain", "125", "--json")
	validate(t, w.out.String())
}

// TestRefusedValues: a refused value is told as it was typed, to programs as to people.
func TestRefusedValues(t *testing.T) {
	w := newWorld(t)
	w.engine.onSubmit = func(r control.SubmitRequest) error {
		return &control.ProblemsError{Provider: "docker", Problems: []sdk.Problem{
			{Field: "cpu", Value: r.Spec.Value("cpu"), Message: "too many", Code: sdk.Unimplemented},
			{Field: "memory", Value: r.Spec.Value("memory"), Message: "too much", Code: sdk.Unimplemented}}}
	}
	text := w.fails(ExitWindlass, "run", "--image", "app", "--cpus", "3", "--memory", "2g", "--", "x")
	if !strings.Contains(text, `cpu "3": too many`) || !strings.Contains(text, `memory "2g": too much`) {
		t.Errorf("%s", text)
	}
	w.fails(ExitWindlass, "run", "--json", "--image", "app", "--cpus", "3", "--memory", "2g", "--", "x")
	if out := w.out.String(); !strings.Contains(out, `"value":"3"`) || !strings.Contains(out, `"value":"2g"`) {
		t.Errorf("%s", out)
	}
}
