package pluginhost_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/sdk"
)

// shelf is a folder with an index and its programs.
type shelf struct {
	t   *testing.T
	dir string
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{t: t, dir: t.TempDir()}
	s.put("a-1", "program one")
	s.put("a-2", "program two")
	return s
}

func (s *shelf) put(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func sumOf(text string) string {
	h := sha256.Sum256([]byte(text))
	return hex.EncodeToString(h[:])
}

// index writes the index; change may spoil it.
func (s *shelf) index(change func(*pluginhost.Index)) string {
	s.t.Helper()
	x := pluginhost.Index{Plugins: []pluginhost.Release{
		{Name: "a", Version: "1.0.0", Description: "The first.", Services: []string{"x.Y"}, Programs: []pluginhost.Build{{OS: "os", Arch: "arch", Address: "a-1", SHA256: sumOf("program one")}}},
		{Name: "a", Version: "2.0.0", Programs: []pluginhost.Build{{OS: "os", Arch: "arch", Address: "a-2", SHA256: "sha256:" + sumOf("program two")}}},
	}}
	if change != nil {
		change(&x)
	}
	data, err := json.Marshal(x)
	if err != nil {
		s.t.Fatal(err)
	}
	s.put("index.json", string(data))
	return filepath.Join(s.dir, "index.json")
}

func install(t *testing.T, dir, index, version string) (pluginhost.Installed, error) {
	t.Helper()
	return pluginhost.Install(t.Context(), pluginhost.InstallRequest{Name: "a", Version: version, Index: index, Dir: dir, OS: "os", Arch: "arch"})
}

// names lists all that is in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// TestInstall installs, again, and a newer version in its place; the program is verified
// by what the installation noted.
func TestInstall(t *testing.T) {
	s, dir := newShelf(t), filepath.Join(t.TempDir(), "plugins")
	index := s.index(nil)
	for _, step := range []struct {
		version, text, replaced string
		already                 bool
	}{{"1.0.0", "program one", "", false}, {"1.0.0", "program one", "", true}, {"2.0.0", "program two", "1.0.0", false}, {"1.0.0", "program one", "2.0.0", false}} {
		got, err := install(t, dir, index, step.version)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(got.Path)
		if err != nil || string(text) != step.text || got.Replaced != step.replaced || got.Already != step.already {
			t.Errorf("%+v: %+v, %q, %v", step, got, text, err)
		}
		p := config.Plugin{Name: "a", Path: got.Path}
		if v := pluginhost.Look(p); !v.Verified || v.Manifest.Version != step.version || v.Err != nil {
			t.Errorf("%+v: it looks as %+v", step, v)
		}
		if got := names(t, dir); len(got) != 1 || got[0] != "a" {
			t.Errorf("the folder has %q", got)
		}
	}
	// What is there tells where it came from, whichever index names it today.
	if got, err := install(t, dir, newShelf(t).index(nil), "1.0.0"); err != nil || !got.Already || !strings.Contains(got.From, s.dir) {
		t.Errorf("it came from %+v, %v", got, err)
	}
	// Changed afterwards, it isn't started.
	if err := os.WriteFile(config.Program(filepath.Join(dir, "a")), []byte("evil"), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := pluginhost.Look(config.Plugin{Name: "a", Path: config.Program(filepath.Join(dir, "a"))}); v.Verified || sdk.CodeOf(v.Err) != sdk.PermissionDenied {
		t.Errorf("a program that was changed looks as %+v", v)
	}
	// And is mended by installing it again.
	if got, err := install(t, dir, index, "1.0.0"); err != nil || got.Already {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestInstallRefuses: nothing is there afterwards that wasn't before.
func TestInstallRefuses(t *testing.T) {
	build := func(x *pluginhost.Index) *pluginhost.Build { return &x.Plugins[0].Programs[0] }
	for name, c := range map[string]struct {
		change func(*pluginhost.Index)
		want   string
		code   sdk.Code
	}{
		"another program":  {func(x *pluginhost.Index) { build(x).Address = "a-2" }, "SHA-256", sdk.DataLoss},
		"no program":       {func(x *pluginhost.Index) { build(x).Address = "a-3" }, "no such file", sdk.Unavailable},
		"plain http":       {func(x *pluginhost.Index) { build(x).Address = "http://127.0.0.1:1/x" }, "only https", sdk.InvalidArgument},
		"another scheme":   {func(x *pluginhost.Index) { build(x).Address = "ftp://a/x" }, "only https", sdk.InvalidArgument},
		"another machine":  {func(x *pluginhost.Index) { build(x).Address = "file://elsewhere/x" }, "another machine", sdk.InvalidArgument},
		"a folder":         {func(x *pluginhost.Index) { build(x).Address = "." }, "is no file", sdk.Unavailable},
		"another system":   {func(x *pluginhost.Index) { build(x).Arch = "riscv64" }, "only for os/riscv64", sdk.NotFound},
		"another version":  {func(x *pluginhost.Index) { x.Plugins[0].Version = "1.0.1" }, "the index has 1.0.1, 2.0.0", sdk.NotFound},
		"another name":     {func(x *pluginhost.Index) { x.Plugins = x.Plugins[:1]; x.Plugins[0].Name = "ab" }, `did you mean "ab"`, sdk.NotFound},
		"a path as a name": {func(x *pluginhost.Index) { x.Plugins[0].Name = "../a" }, "can't be a plugin's name", sdk.InvalidArgument},
		"no checksum":      {func(x *pluginhost.Index) { build(x).SHA256 = "" }, "is no SHA-256", sdk.InvalidArgument},
		"twice":            {func(x *pluginhost.Index) { x.Plugins[1].Version = "1.0.0" }, "twice", sdk.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := newShelf(t), filepath.Join(t.TempDir(), "plugins")
			_, err := install(t, dir, s.index(c.change), "1.0.0")
			if sdk.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v (%v), want %s", err, sdk.CodeOf(err), c.want)
			}
			if got := names(t, dir); len(got) > 0 {
				t.Errorf("it left %q", got)
			}
		})
	}
}

// TestInstallLeavesOthersAlone: a folder that no installation has made stays as it is.
func TestInstallLeavesOthersAlone(t *testing.T) {
	s, dir := newShelf(t), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := install(t, dir, s.index(nil), "1.0.0"); sdk.CodeOf(err) != sdk.AlreadyExists {
		t.Errorf("%v", err)
	}
	if got := names(t, filepath.Join(dir, "a")); len(got) > 0 {
		t.Errorf("its folder has %q", got)
	}
}

// TestInstallFromAServer: over https alone, also where the server leads elsewhere; and
// an index from there can't name files of this machine.
func TestInstallFromAServer(t *testing.T) {
	s := newShelf(t)
	plain := httptest.NewServer(http.FileServer(http.Dir(s.dir)))
	defer plain.Close()
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServer(http.Dir(s.dir)))
	mux.Handle("/away/", http.RedirectHandler(plain.URL+"/a-1", http.StatusFound))
	srv := httptest.NewTLSServer(mux)
	defer srv.Close()
	for address, want := range map[string]string{
		"a-1": "", srv.URL + "/a-1": "", srv.URL + "/away/": "it leads to http://", "nowhere": "404", "file://" + s.dir + "/a-1": "names a file of this one", plain.URL + "/a-1": "only https",
	} {
		s.index(func(x *pluginhost.Index) { x.Plugins[0].Programs[0].Address = address })
		dir := filepath.Join(t.TempDir(), "plugins")
		got, err := pluginhost.Install(t.Context(), pluginhost.InstallRequest{Name: "a", Version: "1.0.0", Index: srv.URL + "/index.json", Dir: dir, OS: "os", Arch: "arch", Client: srv.Client()})
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %+v, %v, want %q", address, got, err, want)
		case want != "" && len(names(t, dir)) > 0:
			t.Errorf("%s: it left %q", address, names(t, dir))
		}
	}
	if _, err := install(t, t.TempDir(), plain.URL+"/index.json", "1.0.0"); err == nil || !strings.Contains(err.Error(), "only https") {
		t.Errorf("an index over http: %v", err)
	}
}

// TestParseIndexIsStrict names what doesn't fit.
func TestParseIndexIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		``: "EOF", `[]`: "cannot unmarshal", `{"plugin": []}`: "unknown field", `{} {}`: "follows", `{"plugins": [{"name": "a"}]}`: "version",
		`{"plugins": [{"name": "a", "version": "1", "programs": [{"sha256": "` + sumOf("") + `"}]}]}`: "missing",
	} {
		if _, err := pluginhost.ParseIndex([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// FuzzParseIndex: what is read names only folders below the folder of plugins.
func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"plugins": [{"name": "a", "version": "1", "services": ["x"], "programs": [{"os": "o", "arch": "a", "address": "x", "sha256": "` + sumOf("") + `"}]}]}`))
	f.Add([]byte(`{"plugins": [{"name": "../x", "version": "1"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := pluginhost.ParseIndex(data)
		for _, r := range x.Plugins {
			if err != nil || filepath.Base(r.Name) != r.Name || strings.HasPrefix(r.Name, ".") || r.Name == "" {
				t.Errorf("%q, %v", r.Name, err)
			}
		}
	})
}

// TestIndexOfTheManual: the index that the manual shows is one, and names all that such a
// plugin serves: that of the manual for authors.
func TestIndexOfTheManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/plugins.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	example, _, _ := strings.Cut(rest, "```")
	x, err := pluginhost.ParseIndex([]byte(example))
	if err != nil || len(x.Plugins) != 1 {
		t.Fatalf("%v in %s", err, example)
	}
	text, err = os.ReadFile("../../examples/plugin/plugin.json")
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Services []string `json:"iacServices"`
	}
	if err := json.Unmarshal(text, &m); err != nil || !slices.Equal(x.Plugins[0].Services, m.Services) {
		t.Errorf("%v: the manual's index has %q, such a plugin serves %q", err, x.Plugins[0].Services, m.Services)
	}
}
