package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/sdk"
)

// TestPlugins reads plugins of a file and of the folder: an entry wins, what is no
// plugin's folder is left out, and a link to a folder counts.
func TestPlugins(t *testing.T) {
	dir, data := t.TempDir(), t.TempDir()
	sum := strings.Repeat("ab", 32)
	write(t, filepath.Join(dir, FileName), "plugins:\n  near: {path: bin/near, checksum: 'sha256:"+strings.ToUpper(sum)+"', config: {a: 1}, env: [TOKEN, NONE]}\n  both: {env: [TOKEN]}\nproviders: {p: {kind: far}, q: {kind: nera}}\n")
	folder := filepath.Join(data, "windlass", "plugins")
	for _, name := range []string{"both", "far", ".half", "my plugin"} {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(folder, "file"), "")
	if err := os.Symlink(filepath.Join(folder, "far"), filepath.Join(folder, "link")); err != nil {
		t.Skip(err)
	}
	c := load(t, LoadRequest{Env: env("XDG_DATA_HOME="+data, "TOKEN=t"), Dir: dir})
	if got, want := c.PluginNames(), []string{"both", "far", "link", "near"}; !reflect.DeepEqual(got, want) {
		t.Fatalf("plugins %q, want %q", got, want)
	}
	// A folder whose name can't be a plugin's is told; hidden ones aren't.
	want := []string{fmt.Sprintf("the folder %q is no plugin and is ignored: a name has letters, digits, dots, dashes and underscores, and starts with a letter or digit", filepath.Join(folder, "my plugin"))}
	if !reflect.DeepEqual(c.PluginWarnings, want) || !reflect.DeepEqual(c.Warnings, want) {
		t.Errorf("warnings %q, want %q", c.Warnings, want)
	}
	near, err := c.Plugin("near")
	if err != nil || near.Path != filepath.Join(dir, "bin", "near") || near.Checksum != sum || string(near.Config) != `{"a":1}` || near.InFolder || near.Origin.Line != 2 {
		t.Errorf("%+v, %v", near, err)
	}
	if got := c.PluginEnv(near); !reflect.DeepEqual(got, []string{"TOKEN=t"}) {
		t.Errorf("its environment is %q", got)
	}
	for _, name := range []string{"both", "far"} {
		if p, err := c.Plugin(name); err != nil || p.Path != Program(filepath.Join(folder, name)) || !p.InFolder {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if _, err := c.Plugin("nera"); sdk.CodeOf(err) != sdk.NotFound || !strings.Contains(err.Error(), `did you mean "near"`) {
		t.Errorf("a plugin that isn't there: %v", err)
	}
	// A provider of a plugin's kind is in order, one of no kind isn't.
	if err := c.Validate(testDrivers()); err == nil || !strings.Contains(err.Error(), `no kind is called "nera" (did you mean "near"?)`) || strings.Contains(err.Error(), "far\"") {
		t.Errorf("validated: %v", err)
	}
}

// TestPluginOfABuiltInKind: a plugin can't take the place of a driver.
func TestPluginOfABuiltInKind(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, FileName), "plugins: {docker: {path: /bin/x}}\n")
	c := load(t, LoadRequest{Env: env(), Dir: dir})
	p, err := c.Plugin("docker")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{c.Validate(testDrivers()), p.Validate(testDrivers())} {
		if ps := ProblemsOf(err); len(ps) != 1 || ps[0].Key != "plugins.docker" || !strings.Contains(ps[0].Message, "built in") {
			t.Errorf("%v", err)
		}
	}
}

// TestPluginEntriesAreStrict names what is wrong, and what was meant.
func TestPluginEntriesAreStrict(t *testing.T) {
	for entry, want := range map[string]string{
		"{pth: /x}":            `plugins.a.pth: is not known (did you mean "path"?)`,
		"{checksum: abc}":      `is no SHA-256`,
		"{checksum: 'md5:00'}": `is no SHA-256`,
		"{env: ['A=1']}":       `"A=1" is no variable's name`,
		"{env: ['']}":          `"" is no variable's name`,
		"{env: [1]}":           `wants texts, item 1 is a whole number`,
		"{env: A}":             `wants a list, has text; write env: [A, B], or remove the key`,
		"{env}":                `wants a list, has nothing; write env: [A, B], or remove the key`,
		"{config}":             `wants a mapping, has nothing; write config: {KEY: VALUE}, or remove the key`,
		"{config: [a]}":        `wants a mapping, has a list`,
		"{path: 7}":            `wants text, has a whole number`,
		"[]":                   `wants a mapping, has a list`,
		"{path: a, path: b}":   `path`,
		"{environ: [A], x: 1}": `2 problems`,
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, FileName), "plugins: {a: "+entry+"}\n")
		if _, err := Load(t.Context(), LoadRequest{Env: env(), Dir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", entry, err, want)
		}
	}
}
