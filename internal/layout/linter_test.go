package layout

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the import rules of the table into .golangci.yml")

const (
	linterConfig = ".golangci.yml"
	beginRules   = "      # import rules: begin (written by go test ./internal/layout -update)\n"
	endRules     = "      # import rules: end\n"
	// linterEnv holds the path of golangci-lint; make lint sets it.
	linterEnv = "WINDLASS_TEST_LINTER"
)

// TestLinterImportRules compares the import rules that the linter has with the
// table.
func TestLinterImportRules(t *testing.T) {
	path := filepath.Join("..", "..", linterConfig)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), beginRules)
	_, tail, ok2 := strings.Cut(rest, endRules)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines that begin and end the import rules", linterConfig)
	}
	want := head + beginRules + depguard(layers) + endRules + tail
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatalf("the import rules of %s differ from the table: run go test ./internal/layout -update", linterConfig)
	}
	if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// depguard writes the rules of the table as the linter of that name reads them.
// It matches by prefix, or exactly where a $ ends the name.
func depguard(table []layer) string {
	var b strings.Builder
	for i, l := range table {
		if l.root {
			continue
		}
		mode := "lax"
		var allow []string
		if l.stdOnly {
			mode = "strict"
			allow = append(allow, "$gostd")
		}
		for _, name := range append(slices.Clone(l.may), l.path) {
			allow = append(allow, prefixes(table, name)...)
		}
		for _, o := range table {
			if o.open && !l.stdOnly && !slices.ContainsFunc(l.never, func(n string) bool { return covered(n, o, o.path) }) {
				allow = append(allow, prefixes(table, o.path)...)
			}
		}
		slices.Sort(allow)
		allow = slices.DeleteFunc(allow, func(name string) bool {
			return slices.ContainsFunc(allow, func(outer string) bool {
				return outer != name && strings.HasSuffix(outer, "/") && strings.HasPrefix(name, outer)
			})
		})
		fmt.Fprintf(&b, "        %s:\n          list-mode: %s\n          files:\n", strings.NewReplacer("/", "-", "*", "each").Replace(l.path), mode)
		fmt.Fprintf(&b, "            - \"${base-path}/%s.go\"\n            - \"!$test\"\n", glob(l.path))
		for j, o := range table {
			if _, in := under(l.path, o.path); in && j != i {
				fmt.Fprintf(&b, "            - \"!${base-path}/%s.go\"\n", glob(o.path))
			}
		}
		b.WriteString("          allow:\n")
		for _, a := range allow {
			fmt.Fprintf(&b, "            - %s\n", a)
		}
		fmt.Fprintf(&b, "          deny:\n            - pkg: %s\n              desc: imports go down only, see internal/layout/table_test.go\n", module)
	}
	return b.String()
}

// glob matches the files of a row. In the linter's globs ** is any text.
func glob(path string) string { return strings.TrimSuffix(path, "/*") + "/**" }

// prefixes returns what depguard takes for the packages of a row, less those of
// the rows inside it. It compares a package only with the nearest prefix in
// alphabetical order, so no prefix may lie inside another.
func prefixes(table []layer, name string) []string {
	base, star := strings.CutSuffix(name, "/*")
	if star {
		return []string{module + "/" + base + "/"}
	}
	for _, o := range table {
		if rest, in := under(base, o.path); in && rest != "" {
			return []string{module + "/" + base + "$"}
		}
	}
	return []string{module + "/" + base + "$", module + "/" + base + "/"}
}

// TestLinterReports runs the linter with the project's configuration over a
// small module that breaks its rules, and looks for each finding: a rule that
// never bites would be found nowhere else.
func TestLinterReports(t *testing.T) {
	if testing.Short() {
		t.Skip("left out by -short")
	}
	linter := os.Getenv(linterEnv)
	if linter == "" {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not set: run make lint or make test", linterEnv)
		}
		t.Skipf("%s is not set: make lint runs this", linterEnv)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config, err := os.ReadFile(filepath.Join("..", "..", linterConfig))
	if err != nil {
		t.Fatal(err)
	}
	write(linterConfig, string(config))
	write("go.mod", "module "+module+"\n\ngo 1.26\n")
	for _, p := range []string{"sdk", "sdk/plugin", "internal/secret", "internal/config", "internal/driver/local", "internal/cloud/aws",
		"internal/cloud/gcp", "internal/ledger", "internal/ledger/sqlite", "internal/driver/docker", "internal/failpoint"} {
		name := p[strings.LastIndex(p, "/")+1:]
		write(p+"/"+name+".go", "// Package "+name+" is here to be imported.\npackage "+name+"\n")
	}
	bad := map[string]struct{ linter, src string }{
		"sdk/down.go":                     {"depguard", imported("sdk", "internal/secret")},
		"sdk/plugins.go":                  {"depguard", imported("sdk", "sdk/plugin")},
		"internal/control/driver.go":      {"depguard", imported("control", "internal/driver/local")},
		"internal/control/ledger.go":      {"", imported("control", "internal/ledger")},
		"internal/control/fail.go":        {"", imported("control", "internal/failpoint")},
		"sdk/fail.go":                     {"depguard", imported("sdk", "internal/failpoint")},
		"internal/pocket/fail.go":         {"depguard", imported("pocket", "internal/failpoint")},
		"internal/control/store.go":       {"depguard", imported("control", "internal/ledger/sqlite")},
		"internal/cli/driver.go":          {"depguard", imported("cli", "internal/driver/local")},
		"internal/driver/ecs/good.go":     {"", imported("ecs", "internal/cloud/aws")},
		"internal/cloud/gcp/tail/go.go":   {"", imported("tail", "internal/cloud/gcp")},
		"internal/driver/ecs/bad.go":      {"depguard", imported("ecs", "internal/cloud/gcp")},
		"internal/driver/argo/other.go":   {"depguard", imported("argo", "internal/driver/docker")},
		"internal/pocket/sdk.go":          {"depguard", imported("pocket", "sdk")},
		"cmd/windlass/all.go":             {"", imported("main", "internal/driver/local")},
		"internal/cli/env.go":             {"forbidigo", "package cli\n\nimport \"os\"\n\nvar v = os.Getenv(\"V\")\n\nvar _ = v\n"},
		"internal/config/env.go":          {"", "package config\n\nimport \"os\"\n\nvar v = os.Getenv(\"V\")\n\nvar _ = v\n"},
		"internal/cli/compare.go":         {"errorlint", "package cli\n\nimport \"io\"\n\nfunc ended(err error) bool { return err == io.EOF }\n\nvar _ = ended\n"},
		"internal/cli/ignore.go":          {"errcheck", "package cli\n\nimport \"os\"\n\nfunc drop() { os.Remove(\"f\") }\n\nvar _ = drop\n"},
		"internal/cli/self.go":            {"staticcheck", "package cli\n\nfunc same(a int) bool { return a == a }\n\nvar _ = same\n"},
		"internal/cli/comment.go":         {"revive", "package cli\n\nfunc Exported() {}\n"},
		"internal/cli/format.go":          {"gofmt", "package cli\n\nvar  spaced = 1\n\nvar _ = spaced\n"},
		"internal/cli/vet.go":             {"govet", "package cli\n\nimport \"fmt\"\n\nvar f = fmt.Sprintf(\"%d\", \"x\")\n\nvar _ = f\n"},
		"internal/cli/dead.go":            {"unused", "package cli\n\nfunc dead() {}\n"},
		"internal/cli/assign.go":          {"ineffassign", "package cli\n\nfunc assign() int {\n\ta := 1\n\ta = 2\n\treturn a\n}\n\nvar _ = assign\n"},
		"internal/cli/spell.go":           {"misspell", "package cli\n\n// It was rec" + "ieved.\nvar _ = 1\n"},
		"internal/cli/request.go":         {"noctx", "package cli\n\nimport \"net/http\"\n\nfunc get() {\n\tresp, err := http.Get(\"http://localhost\")\n\tif err == nil {\n\t\t_ = resp.Body.Close()\n\t}\n}\n\nvar _ = get\n"},
		"internal/cli/body.go":            {"bodyclose", "package cli\n\nimport \"net/http\"\n\nfunc status(c *http.Client, r *http.Request) int {\n\tresp, err := c.Do(r)\n\tif err != nil {\n\t\treturn 0\n\t}\n\treturn resp.StatusCode\n}\n\nvar _ = status\n"},
		"internal/cli/held.go":            {"containedctx", "package cli\n\nimport \"context\"\n\ntype held struct{ ctx context.Context }\n\nvar _ = held{ctx: nil}\n"},
		"internal/cli/init.go":            {"gochecknoinits", "package cli\n\nfunc init() { Exported() }\n"},
		"internal/cli/excuse.go":          {"nolintlint", "package cli\n\nimport \"os\"\n\nfunc excuse() {\n\tos.Remove(\"f\") //nolint:errcheck\n}\n\nvar _ = excuse\n"},
		"internal/cli/cli.go":             {"", "// Package cli is a bad example.\npackage cli\n"},
		"internal/control/control.go":     {"", "// Package control is a bad example.\npackage control\n"},
		"internal/cloud/gcp/tail/tail.go": {"", "// Package tail is a good example.\npackage tail\n"},
		"internal/driver/ecs/ecs.go":      {"", "// Package ecs is a bad example.\npackage ecs\n"},
		"internal/driver/argo/argo.go":    {"", "// Package argo is a bad example.\npackage argo\n"},
		"internal/pocket/pocket.go":       {"", "// Package pocket is a bad example.\npackage pocket\n"},
		"cmd/windlass/main.go":            {"", "// Command windlass is a bad example.\npackage main\n\nfunc main() {}\n"},
	}
	for name, b := range bad {
		write(name, b.src)
	}

	cmd := exec.CommandContext(t.Context(), linter, "run", "--allow-parallel-runners", "--show-stats=false", "--output.text.path=stdout",
		"--output.text.print-issued-lines=false", "--output.text.colors=false", "./...")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("the linter ended with %v, not with the code for findings:\n%s", err, out)
	}
	found := map[string][]string{} // by file
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(line, ":")
		open, end := strings.LastIndex(line, "("), strings.LastIndex(line, ")")
		if open < 0 || end < open {
			t.Errorf("unexpected line of the linter: %s", line)
			continue
		}
		found[name] = append(found[name], line[open+1:end])
	}
	for name, b := range bad {
		got := found[name]
		if b.linter == "" && len(got) > 0 || b.linter != "" && !slices.Equal(slices.Compact(got), []string{b.linter}) {
			t.Errorf("%s: reported by %q, want %q", name, got, b.linter)
		}
	}
	if t.Failed() {
		t.Logf("all findings:\n%s", out)
	}
}

func imported(pkg, path string) string {
	return fmt.Sprintf("package %s\n\nimport _ %q\n", pkg, module+"/"+path)
}
