package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// FuzzLoad looks for files that panic, and for accepted ones whose problems or
// values can't be shown.
func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		"default_provider: local\n", "providers:\n  prod: {kind: docker, config: {host: a, registries: [{server: b}]}}\n", "a: &a [*a]\n", "? [a]\n: b\n",
		"retention: {logs: 30d}\nlog: {max_bytes: 1Gi}\n", "owner: !!binary aGk=\n", "owner: |2\n  x\n", "%YAML 1.2\n---\nowner: a\n", "a: 'x\n", "<<: {owner: a}\n",
		"providers: {docker: , local: {config: {}}}\n", "plugins: {a: {b: [1, .nan]}}\n", "- - - a\n", "\t\n", "owner: \"\\ud800\"\n", "&a: b\n", "*a : b\n", "!!map\n", "? \n", "a: ! x\n",
	} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	path := filepath.Join(dir, FileName)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			t.Skip("the parser's time grows with the square of the size")
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(t.Context(), LoadRequest{Env: env(), ExplicitFile: path, Dir: dir})
		if err != nil {
			ps := ProblemsOf(err)
			if len(ps) == 0 || err.Error() == "" {
				t.Fatalf("%q: no problems in %v", data, err)
			}
			for _, p := range ps {
				if p.ID == "" || p.Message == "" || p.Origin.Kind == FromFile && p.Origin.Name != path {
					t.Fatalf("%q: problem %+v", data, p)
				}
			}
			return
		}
		for _, r := range c.Show(testDrivers()) {
			if r.Name == "" {
				t.Fatalf("%q: row %+v", data, r)
			}
		}
		if err := c.Validate(testDrivers()); err != nil && len(ProblemsOf(err)) == 0 {
			t.Fatalf("%q: %v", data, err)
		}
		for _, name := range c.ProviderNames() {
			p, err := c.Provider(name)
			if err != nil || p.Kind == "" || len(p.Config) > 0 && !json.Valid(p.Config) {
				t.Fatalf("%q: provider %+v, %v", data, p, err)
			}
		}
	})
}
