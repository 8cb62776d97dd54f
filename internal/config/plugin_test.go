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

// TestFolderOfABuiltInKind: a folder of plugins with a driver's name is told by its path.
func TestFolderOfABuiltInKind(t *testing.T) {
	folder := t.TempDir()
	at := filepath.Join(folder, "docker")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	c := load(t, LoadRequest{Env: env("WINDLASS_PLUGINS=" + folder), Dir: t.TempDir()})
	if ps := ProblemsOf(c.Validate(testDrivers())); len(ps) != 1 || ps[0].String() != "the folder "+at+" has the name of a kind that is built in; remove it, or give it and the program in it another name" {
		t.Errorf("%v", ps)
	}
}

// TestHiddenPlugin: an entry whose path is another program hides the folder's own plugin,
// which is told; one that names that very program hides nothing.
func TestHiddenPlugin(t *testing.T) {
	folder, dir := t.TempDir(), t.TempDir()
	at := filepath.Join(folder, "mine")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, Program(at), "a program")
	for path, want := range map[string]string{
		Program(at): "",
		"bin/mine":  fmt.Sprintf("the plugin in the folder %q isn't used: plugins.mine.path in %s names another program, %s", at, filepath.Join(dir, FileName), filepath.Join(dir, "bin", "mine")),
	} {
		write(t, filepath.Join(dir, FileName), "plugins: {mine: {path: "+path+"}}\n")
		c := load(t, LoadRequest{Env: env("WINDLASS_PLUGINS=" + folder), Dir: dir})
		if got := strings.Join(c.PluginNotes, "|"); got != want || len(c.Warnings) > 0 {
			t.Errorf("%s: %q, want %q; warnings %q", path, got, want, c.Warnings)
		}
	}
}

// TestNoNameOfAPlugin: what can't be a name is told so, with the folder that has it.
func TestNoNameOfAPlugin(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "my plugin"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := load(t, LoadRequest{Env: env("WINDLASS_PLUGINS=" + folder), Dir: t.TempDir()})
	for name, want := range map[string]string{
		"my plugin":  "give the folder " + filepath.Join(folder, "my plugin") + " and the program in it another name",
		"no plugin":  "windlass plugin ls",
		"../" + "up": "windlass plugin ls",
	} {
		if _, err := c.Plugin(name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q can't be a plugin's name: a name has", name)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
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
