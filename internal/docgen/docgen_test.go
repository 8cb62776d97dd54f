package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// TestDocumentsAreCurrent is the check of the module itself.
func TestDocumentsAreCurrent(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := generate(root, documents(), true, &out); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

func TestGenerate(t *testing.T) {
	root := t.TempDir()
	text := "one\ntwo\nthree\n"
	docs := []document{{"docs/a.md", func() ([]byte, error) { return []byte(text), nil }}}
	var out bytes.Buffer
	if err := generate(root, docs, true, &out); err == nil || !strings.Contains(out.String(), "docs/a.md differs") {
		t.Errorf("a missing document passes: %v, %q", err, out.String())
	}
	if _, err := os.Stat(filepath.Join(root, "docs")); err == nil {
		t.Error("the check wrote something")
	}
	if err := generate(root, docs, false, &out); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "docs", "a.md")); err != nil || string(got) != text {
		t.Errorf("wrote %q, %v", got, err)
	}
	out.Reset()
	if err := generate(root, docs, true, &out); err != nil || out.Len() > 0 {
		t.Errorf("%v, %q", err, out.String())
	}
	text = "one\n2\nthree\n"
	if err := generate(root, docs, true, &out); err == nil || out.String() != "docs/a.md differs\n-2: two\n+2: 2\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

// TestEveryStepFieldIsDescribed: on every kind that runs jobs each field of a step has a
// row of the kind's own, with what is taken or why it is refused.
func TestEveryStepFieldIsDescribed(t *testing.T) {
	for _, d := range all.Drivers() {
		places := sandbox.Places{Providers: []sandbox.Provider{{Name: "p", Kind: d.Kind, Support: d.Support}}, Jobs: &sandbox.Jobs{}}
		env, err := places.Find(t.Context(), sandbox.Choice{ExecEnv: sandbox.ProviderEphemeral, Provider: "p"})
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Support) == 0 {
			continue // it runs no jobs
		}
		for _, row := range env.Support() {
			if row.Values == "as the provider takes it" || (row.Values == "") == (row.Refused == "") {
				t.Errorf("%s has no word on %s", d.Kind, row.Field)
			}
		}
	}
}

// TestGuaranteeRows changes each field of Guarantees in turn: some row of the
// matrix must show it.
func TestGuaranteeRows(t *testing.T) {
	show := func(g sdk.Guarantees) string {
		var b strings.Builder
		for _, r := range guaranteeRows() {
			b.WriteString(r.name + "=" + r.words(g) + "\n")
		}
		for _, r := range cli.WorkloadGuaranteeRows() {
			b.WriteString(r.Name + "=" + r.Words(g.Workload) + "\n")
		}
		return b.String()
	}
	base := sdk.Guarantees{Submit: sdk.SubmitGuarantee{By: sdk.SubmitByToken}, Grace: sdk.GraceGuarantee{Supported: true}, Deadline: sdk.DeadlineGuarantee{Native: true}}
	var walk func(v reflect.Value, path string)
	var g sdk.Guarantees
	walk = func(v reflect.Value, path string) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				walk(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
			return
		}
		old := reflect.New(v.Type()).Elem()
		old.Set(v)
		switch v.Kind() {
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.Int64:
			v.SetInt(77e9)
		case reflect.String:
			v.SetString("changed")
		case reflect.Slice:
			v.Set(reflect.ValueOf([]sdk.StdinMode{"changed"}))
		default:
			t.Fatalf("%s is a %s", path, v.Kind())
		}
		if show(g) == show(base) {
			t.Errorf("no row shows Guarantees%s", path)
		}
		v.Set(old)
	}
	g = base
	walk(reflect.ValueOf(&g).Elem(), "")
}

// TestSupportCoversTheSpec: a kind says of each field of a job what it honours.
func TestSupportCoversTheSpec(t *testing.T) {
	spec := reflect.TypeFor[sdk.JobSpec]()
	known := map[string]bool{}
	for i := range spec.NumField() {
		name, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		known[name] = true
	}
	for _, d := range all.Drivers() {
		seen := map[string]bool{}
		for _, s := range d.Support {
			if !known[s.Field] || seen[s.Field] || s.Values == "" && s.Refused == "" {
				t.Errorf("%s: row %+v", d.Kind, s)
			}
			seen[s.Field] = true
		}
	}
}

// TestSchemesHaveColumns: what a kind takes stands in the table of secrets.
func TestSchemesHaveColumns(t *testing.T) {
	for _, d := range all.Drivers() {
		for _, s := range d.Schemes {
			if !slices.Contains(secret.Known(), s) {
				t.Errorf("docs/secrets.md has no column for %s, which %s takes", s, d.Kind)
			}
		}
	}
}

func TestTable(t *testing.T) {
	got := table([]string{"a", "b"}, [][]string{{"x|y", "two\nlines"}})
	if want := "| a | b |\n| --- | --- |\n| x\\|y | two lines |\n"; got != want {
		t.Errorf("got %q", got)
	}
}

// TestExampleLoads reads the example of docs/configuration.md as a user would.
func TestExampleLoads(t *testing.T) {
	text, err := configuration()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "```yaml\n")
	example, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("no example in the document")
	}
	file := filepath.Join(t.TempDir(), config.FileName)
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(t.Context(), config.LoadRequest{Env: config.EnvOf(nil), ExplicitFile: file})
	if err == nil {
		err = c.Validate(all.Drivers())
	}
	if err != nil {
		t.Error(err)
	}
}
