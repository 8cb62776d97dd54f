package config

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

var update = flag.Bool("update", false, "write the golden files")

func testDrivers() []sdk.Driver {
	return []sdk.Driver{
		{Kind: "docker", Doc: "Runs containers.", Config: sdk.Schema{Fields: []sdk.SchemaField{
			{Name: "host", Type: sdk.TypeString, Doc: "The engine."},
			{Name: "pull", Type: sdk.TypeString, Enum: []string{"always", "missing"}, Default: "missing"},
			{Name: "port", Type: sdk.TypeInt, Min: 1, Max: 65535},
			{Name: "registries", Type: sdk.TypeList, Elem: &sdk.SchemaField{Type: sdk.TypeObject, Fields: []sdk.SchemaField{
				{Name: "server", Type: sdk.TypeString, Required: true, Doc: "its name"},
				{Name: "password", Type: sdk.TypeString, Sensitive: true},
			}}},
			{Name: "log", Type: sdk.TypeObject, Fields: []sdk.SchemaField{{Name: "max.size", Type: sdk.TypeInt}, {Name: "every", Type: sdk.TypeDuration}}},
			{Name: "token", Type: sdk.TypeString, Sensitive: true},
		}}},
		{Kind: "local"},
	}
}

// TestErrors compares what the user sees with testdata/errors.golden: each
// case stands there with its text.
func TestErrors(t *testing.T) {
	cases := []struct{ name, yaml string }{
		{"unknown key", "default_providr: local\n"},
		{"unknown key, nothing near", "xyzzy: 1\n"},
		{"unknown key below", "retention:\n  log: 1d\n"},
		{"unknown key of a provider", "providers:\n  prod:\n    kind: docker\n    poll_intervall: 2s\n"},
		{"several", "ownr: a\nproviders:\n  prod: {kidn: docker}\n  x y: {kind: docker}\nretention: {logs: 30}\nlog: 7\n"},
		{"duplicate key", "owner: a\nowner: b\n"},
		{"missing kind", "providers:\n  prod:\n    poll_interval: 2s\n"},
		{"entry without anything", "providers:\n  prod:\n"},
		{"number for text", "owner: 12\n"},
		{"nothing for text", "owner:\n"},
		{"list for text", "owner: [a]\n"},
		{"duration without a unit", "providers:\n  local: {poll_interval: 2}\n"},
		{"bad duration", "retention: {logs: soon}\n"},
		{"duration out of range", "providers: {local: {call_timeout: 5m}}\n"},
		{"m on memory", "log: {max_bytes: 512m}\n"},
		{"docker's unit", "log: {max_bytes: 512MB}\n"},
		{"size too small", "log: {max_bytes: 1}\n"},
		{"bad enum", "providers: {local: {credentials: ambiant}}\n"},
		{"negative", "providers: {local: {max_in_flight: -1}}\n"},
		{"text for a number", "providers: {local: {max_in_flight: many}}\n"},
		{"config is no mapping", "providers: {local: {config: [1]}}\n"},
		{"default provider doesn't exist", "default_provider: dokcer\n"},
		{"not a mapping", "- a\n- b\n"},
		{"broken", "providers:\n  a: [1, 2\nowner: x\n"},
		{"tab", "providers:\n\tlocal:\n"},
		{"two documents", "owner: a\n---\nowner: b\n"},
		{"not UTF-8", "owner: a\xffb\n"},
		{"control character", "owner: a\x01b\n"},
		{"alias without anchor", "owner: *a\n"},
		{"unknown tag", "owner: !secret a\n"},
		{"infinity", "providers: {local: {submit_rate: .inf}}\n"},
		{"deep", "owner: " + strings.Repeat("[", 100) + "\n"},
		{"deep by dashes", strings.Repeat("- ", 100) + "\n"},
		{"merge of text", "owner: a\n<<: b\n"},
	}
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	var got strings.Builder
	for _, c := range cases {
		write(t, path, c.yaml)
		_, err := Load(t.Context(), LoadRequest{Env: env(), Dir: dir})
		fmt.Fprintf(&got, "# %s\n%s\n\n", c.name, show(err, dir))
	}
	t.Run("provider config", func(t *testing.T) {
		write(t, path, `providers:
  prod:
    kind: docker
    config:
      hots: a
      pull: never
      port: 70000
      token: 5
      host:
      log:
        max.size: x
        every: 5
      registries:
        - server: a
        - password: 7
  kindless: {kind: dokcer}
`)
		c := load(t, LoadRequest{Env: env(), Dir: dir})
		fmt.Fprintf(&got, "# provider config\n%s\n\n", show(c.Validate(testDrivers()), dir))
		p, _ := c.Provider("kindless")
		fmt.Fprintf(&got, "# one provider\n%s\n\n", show(p.Validate(testDrivers()), dir))
	})
	fmt.Fprintf(&got, "# environment\n%s\n\n", show(second(Load(t.Context(), LoadRequest{
		Env: env("WINDLASS_KEEPER=of", "WINDLASS_RETENTION_LOGS=1", "WINDLASS_LOG_MAX_BYTES=1m", "WINDLASS_ACTOR= ")})), dir))
	fmt.Fprintf(&got, "# flag\n%s\n\n", show(second(Load(t.Context(), LoadRequest{Env: env(), Flags: map[string]string{"on": "locl"}})), dir))

	golden := filepath.Join("testdata", "errors.golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("differs from %s (go test -update writes it):\n%s", golden, got.String())
	}
}

// TestCheckTellsAll: what a file, the drivers and the plugins' entries are wrong with comes
// at once, and nothing that only follows from another.
func TestCheckTellsAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	keys := func(text string) (got []string, c *Config) {
		write(t, path, text)
		c, err := Check(t.Context(), LoadRequest{Env: env(), Dir: dir}, testDrivers())
		for _, p := range ProblemsOf(err) {
			got = append(got, p.Key+" "+p.ID)
		}
		return got, c
	}
	got, c := keys(`plugins:
  folder: {pth: /x, env: [1]}
  docker:
providers:
  a: {kind: foldr}
  b: {poll_interval: 2s}
  c: {kind: docker, config: {hots: x, port: [1]}}
  d: {kind: docker, config: [1]}
default_provider: e
`)
	if want := []string{"plugins.folder.pth " + ErrUnknownKey, "plugins.folder.env " + ErrBadValue, "plugins.docker " + ErrBadValue, "providers.a.kind " + ErrUnknownKind,
		"providers.b " + ErrMissingKey, "providers.c.config.hots " + ErrProviderConfig, "providers.c.config.port " + ErrProviderConfig,
		"providers.d.config " + ErrBadValue, "default_provider " + ErrUnknownProvider}; !slices.Equal(got, want) || c == nil {
		t.Errorf("%q, want %q", got, want)
	}
	// What a file that can't be read would have isn't known.
	if got, _ := keys("providers: {a: {kind: folder}}\nplugins: {folder: [}\n"); len(got) != 1 || got[0] != " "+ErrSyntax {
		t.Errorf("%q", got)
	}
	if got, c := keys("providers: {a: {kind: docker, config: {host: x}}}\n"); len(got) > 0 || len(c.Files) != 1 {
		t.Errorf("%q", got)
	}
}

// TestJoin: several errors are one with all their problems; what is none of ours stays.
func TestJoin(t *testing.T) {
	one, two := invalid("x", []Problem{{Key: "a"}}), invalid("x", []Problem{{Key: "b"}, {Key: "c"}})
	if ps := ProblemsOf(Join(nil, two, one)); len(ps) != 3 {
		t.Errorf("%v", ps)
	}
	other := errors.New("other")
	if Join(nil, nil) != nil || !errors.Is(Join(one, other), other) {
		t.Error("joined otherwise")
	}
}

func second[T any](_ T, err error) error { return err }

func show(err error, dir string) string {
	if err == nil {
		return "no error"
	}
	var e *sdk.Error
	id := ""
	if errors.As(err, &e) {
		id = e.ID
	}
	return fmt.Sprintf("%s %s\n%s", sdk.CodeOf(err), id, strings.ReplaceAll(err.Error(), dir, "DIR"))
}

// TestEveryErrorIsExplained finds the names in the golden file's reach by
// their list.
func TestEveryErrorIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Explanations() {
		if e.ID == "" || len(e.What) < 20 || e.Why == "" || e.Do == "" || seen[e.ID] {
			t.Errorf("explanation %+v", e)
		}
		seen[e.ID] = true
	}
	for _, id := range []string{ErrUnreadable, ErrUntrusted, ErrSyntax, ErrDuplicateKey, ErrUnknownKey, ErrMissingKey, ErrBadValue,
		ErrUnknownProvider, ErrUnknownKind, ErrProviderConfig, ErrStateDir} {
		if !seen[id] {
			t.Errorf("%s has no explanation", id)
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, FileName), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Load(t.Context(), LoadRequest{Env: env(), Dir: dir})
	if ps := ProblemsOf(err); len(ps) != 1 || ps[0].ID != ErrUnreadable || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("got %v", err)
	}
	big := write(t, filepath.Join(dir, "big.yaml"), strings.Repeat("# x\n", yamltree.MaxBytes/4+1))
	_, err = Load(t.Context(), LoadRequest{Env: env(), Dir: dir, ExplicitFile: big})
	if err == nil || !strings.Contains(err.Error(), big+": is larger than 256 KiB") {
		t.Errorf("got %v", err)
	}
}
