package step

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// one wraps the config of a step in a file; its first line is line 4.
func one(config string) string {
	return "steps:\n  - name: a\n    type: step.sandbox_exec\n    config:\n      " + strings.ReplaceAll(strings.TrimSpace(config), "\n", "\n      ") + "\n"
}

func mustParse(t testing.TB, text string) *File {
	t.Helper()
	f, err := sound(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f
}

// sound reads a file, and tells what is wrong with it by itself.
func sound(text string) (*File, error) {
	f, err := parseFile("f.yaml", "/dir", []byte(text))
	if err == nil {
		err = invalid("read steps", f.problems)
	}
	return f, err
}

func TestDecode(t *testing.T) {
	f := mustParse(t, one(`
image: app:1.4
command: [sh, -c, "echo $HOME; exit 3", ""]
env: {A: "1", EMPTY: ""}
image_entrypoint: []
secrets: {TOKEN: secret://env/TOKEN}
allow_visible_secret: true
mounts:
  - {source: ./data, target: /data, read_only: true}
  - {source: cache, target: /cache}
  - {source: /abs, target: /abs, type: bind}
  - {source: "..", target: /up}
work_dir: /work
tmpfs: [{target: /tmp, size: 16Mi}, {target: /run}]
memory_limit: 128Mi
cpu_limit: 0.5
timeout: 90s
start_timeout: 5m
ttl: 1d
network: none
security_profile: standard
fail_on_error: false
exec_env: far`))
	s := f.Steps[0]
	if s.Name != "a" || s.Line != 2 || s.FailOnError || s.Choice != (sandbox.Choice{ExecEnv: "far"}) {
		t.Errorf("%+v", s)
	}
	e, err := s.exec(nil)
	want := sandbox.Exec{Name: "a", Image: "app:1.4", Command: sdk.Argv{"sh", "-c", "echo $HOME; exit 3", ""}, ImageEntrypoint: sdk.Argv{}, AllowVisibleSecret: true, Env: sdk.Env{"A": "1", "EMPTY": ""},
		Secrets: map[string]sdk.SecretRef{"TOKEN": "secret://env/TOKEN"}, WorkDir: "/work", Memory: 128 << 20, CPU: 500,
		Mounts: []sdk.Mount{{Type: "bind", Source: filepath.FromSlash("/dir/data"), Target: "/data", ReadOnly: true}, {Type: "volume", Source: "cache", Target: "/cache"},
			{Type: "bind", Source: "/abs", Target: "/abs"}, {Type: "bind", Source: filepath.FromSlash("/"), Target: "/up"}},
		Tmpfs:   []sdk.Mount{{Type: "tmpfs", Target: "/tmp", Size: 16 << 20}, {Type: "tmpfs", Target: "/run"}},
		Timeout: 90 * time.Second, StartTimeout: 5 * time.Minute, TTL: 24 * time.Hour, Network: "none", Profile: sdk.ProfileStandard}
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("%v\n%+v\n%+v", err, e, want)
	}
	if ps := e.Validate(); len(ps) > 0 {
		t.Errorf("%v", ps)
	}
	// Every field is set, so that one that is added is missed here.
	for _, name := range sandbox.Fields() {
		if !e.IsSet(name) {
			t.Errorf("%s isn't set", name)
		}
	}
}

func TestUnset(t *testing.T) {
	f := mustParse(t, one("image: i"))
	e, err := f.Steps[0].exec(nil)
	if want := (sandbox.Exec{Name: "a", Image: "i"}); err != nil || !reflect.DeepEqual(e, want) || !f.Steps[0].FailOnError {
		t.Errorf("%+v, %v", e, err)
	}
}

// problemCases are files that are wrong, with what is said of them.
func problemCases() [][2]string {
	two := func(second string) string {
		return one("image: i") + "  - name: b\n    type: step.sandbox_exec\n    config:\n      image: i\n      " + second + "\n"
	}
	return [][2]string{
		{"empty", ""}, {"no steps", "step: []\n"}, {"a list", "- a\n"}, {"steps is text", "steps: x\n"}, {"no step", "steps: []\n"},
		{"a step is text", "steps: [x]\n"}, {"no YAML", "steps: [\n"}, {"key twice", "steps: []\nsteps: []\n"}, {"a tab", "steps:\n\t- name: a\n"},
		{"bare step", "steps: [{}]\n"},
		{"unknown keys", "steps: [{name: a, type: step.sandbox_exec, confg: {}, config: {image: i}}]\nname: x\n"},
		{"name", "steps: [{name: -a, type: step.sandbox_exec, config: {image: i}}, {name: 5, type: step.sandbox_exec, config: {image: i}}]\n"},
		{"name twice", "steps:\n- {name: a, type: step.sandbox_exec, config: {image: i}}\n- {name: a, type: step.sandbox_exec, config: {image: i}}\n"},
		{"type", "steps:\n- {name: a, type: step.sandbox_exe, config: {image: i}}\n- {name: b, type: 5, config: {image: i}}\n- {name: c, config: {image: i}}\n"},
		{"argo types", "steps:\n- {name: a, type: step.argo_submit, config: {}}\n- {name: b, type: step.argo_status, config: {}}\n- {name: c, type: step.argo_logs, config: {}}\n" +
			"- {name: d, type: step.argo_delete, config: {}}\n- {name: e, type: step.argo_list, config: {}}\n"},
		{"config", "steps: [{name: a, type: step.sandbox_exec, config: x}, {name: b, type: step.sandbox_exec}]\n"},
		{"unknown field", one("image: i\nmemory: 1Gi\nexec-env: far")},
		{"quantities", one("image: i\nmemory_limit: 128m\ncpu_limit: 0\ntimeout: 90\nttl: 0s")},
		{"more quantities", one("image: i\nmemory_limit: -1\ncpu_limit: 0.0001\ntimeout: soon\nttl: [1]\ntmpfs: [{target: /t, size: 1.5.2Mi}]")},
		{"shapes", one("image: [i]\ncommand: echo hi\nenv: [A=1]\nsecrets: x\nmounts: {a: b}\ntmpfs: /tmp\nnetwork: true\nwork_dir: ~")},
		{"words", one("image: i\ncommand: [echo, 1, true, ~, {a: b}]\nenv: {A: 1, B: true, C: ~}")},
		{"empty name and type", "steps: [{name: \"\", type: \"\", config: {image: i}}]\n"}, {"empty mount", one("image: i\nmounts: [{source: \"\", target: \"\"}]")},
		{"empty values", one("image: \"\"\ncommand: []\nwork_dir: \"\"\nnetwork: \"\"\nexec_env: \"\"")},
		{"enums", one("image: i\nsecurity_profile: stict\nfail_on_error: \"no\"\nmounts: [{source: a, target: /a, type: tmpfs}]")},
		{"mounts", one("image: i\nmounts: [x, {source: a}, {source: a, target: /a, ro: true}]\ntmpfs: [{size: 1Mi}]")},
		{"fixed", one("image: i\nexec_env: \"{{ .x }}\"\nprovider: \"{{ .x }}\"\nargo_module: \"{{ .x }}\"\nsecurity_profile: \"{{ .x }}\"")},
		{"template syntax", one("image: \"{{ .steps.a\"\nnetwork: \"{{ nope 1 }}\"\nwork_dir: \"{{ .steps.a-b.stdout }}\"")},
		{"template of the first step", one("image: \"{{ .steps.a.stdout }}\"")},
		{"template refers ahead", two("network: \"{{ .steps.c.stdout }}\"")},
		{"template key", two("network: \"{{ .steps.a.stdot }}\"")},
		{"template index", two("network: \"{{ index .steps \\\"aa\\\" \\\"stdout\\\" }}\"")},
		{"template within range", two("network: \"{{ with .steps.a }}{{ .stdout }}{{ $.steps.x.stdout }}{{ end }}\"")},
	}
}

// TestProblems compares what is said of wrong files with testdata/problems.golden.
func TestProblems(t *testing.T) {
	var b strings.Builder
	for _, c := range problemCases() {
		_, err := sound(c[1])
		var e *sdk.Error
		if !errors.As(err, &e) || e.Code != sdk.InvalidArgument || e.ID == "" || len(ProblemsOf(err)) == 0 {
			t.Errorf("%s: %v", c[0], err)
			continue
		}
		fmt.Fprintf(&b, "# %s\n%v\n\n", c[0], err)
		for _, p := range ProblemsOf(err) {
			if p.Line < 1 || p.Column < 1 {
				t.Errorf("%s: no place in %v", c[0], p)
			}
		}
	}
	golden(t, "problems.golden", b.String())
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it); got\n%s", path, got)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "f.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(one("image: i\nmounts: [{source: ./d, target: /d}]")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read(t.Context(), "sub/f.yaml", dir, nil)
	if err != nil || f.Path != "sub/f.yaml" || f.Dir != filepath.Dir(path) {
		t.Fatalf("%+v, %v", f, err)
	}
	if e, err := f.Steps[0].exec(nil); err != nil || e.Mounts[0].Source != filepath.Join(dir, "sub", "d") {
		t.Errorf("%+v, %v", e.Mounts, err)
	}
	f, err = Read(t.Context(), "-", dir, strings.NewReader(one("image: i")))
	if err != nil || f.Path != "standard input" || f.Dir != dir {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := Read(t.Context(), "nope.yaml", dir, nil); sdk.CodeOf(err) != sdk.NotFound || !strings.Contains(err.Error(), "nope.yaml") {
		t.Errorf("%v", err)
	}
	if _, err := Read(t.Context(), "-", dir, strings.NewReader(strings.Repeat("#", MaxFile+1))); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("%v", err)
	}
}

// FuzzParse looks for files that panic, and for problems without a place.
func FuzzParse(f *testing.F) {
	for _, c := range problemCases() {
		f.Add([]byte(c[1]))
	}
	f.Add([]byte(one("image: \"{{ trim .steps.a.stdout }}\"\nmounts: [{source: \"{{ .x }}\", target: \"{{ .y }}\"}]\nmemory_limit: \"{{ .z }}\"")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			t.Skip("the parser's time grows with the square of the size")
		}
		file, err := sound(string(data))
		if err != nil {
			for _, p := range ProblemsOf(err) {
				if p.Line < 1 || p.Message == "" {
					t.Fatalf("%q: %+v", data, p)
				}
			}
		}
		if file == nil {
			return
		}
		for _, s := range file.Steps {
			s.draft.Validate()
			if err != nil {
				continue
			}
			// Templates lack all values now: an error or a text, and no panic.
			if _, err := s.exec(map[string]*Output{}); err != nil && len(ProblemsOf(err)) == 0 {
				t.Fatalf("%q: %v", data, err)
			}
		}
	})
}

// TestReadEnds: one who never writes the file can't keep the command.
func TestReadEnds(t *testing.T) {
	nobody, end := io.Pipe()
	t.Cleanup(func() { _ = end.Close() })
	why := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if f, err := Read(ctx, "-", t.TempDir(), nobody); f != nil || !errors.Is(err, why) {
		t.Errorf("%v, %v", f, err)
	}
}
