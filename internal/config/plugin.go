package config

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// Plugin is where a plugin stands and how it is started. Its name is the kind of the
// providers that it serves.
type Plugin struct {
	Name string
	// Path is the program, absolute.
	Path string
	// Checksum is the SHA-256 that the program must have, in hexadecimal; empty when
	// the configuration names none.
	Checksum string
	// Config has defaults for the config of its providers, as raw JSON; nil is none.
	Config json.RawMessage
	// Env names the variables that the plugin gets: nothing else of the environment
	// reaches it.
	Env []string
	// Origin is where the entry stands; zero for one that is only in the folder of
	// plugins.
	Origin Origin
	// InFolder: it stands in the folder of plugins.
	InFolder bool

	// file and at are where the entry stands; nil without one.
	file *file
	at   *yamltree.Node
}

// CheckConfig checks the defaults for the plugin's providers by the plugin's own schema.
// They may be a part: what is needed besides, each provider has to have.
func (p Plugin) CheckConfig(s sdk.Schema) error {
	if len(p.Config) == 0 {
		return nil
	}
	s.Fields = slices.Clone(s.Fields)
	for i := range s.Fields {
		s.Fields[i].Required = false
	}
	return invalid("read config", configProblems(s, p.Config, "plugins."+p.Name, placing{p.Origin, p.file, p.at},
		"`windlass provider describe "+p.Name+"` shows what the plugin takes"))
}

// ErrUnknownPlugin names the error of a plugin that isn't there.
const ErrUnknownPlugin = "config.unknown-plugin"

// IsName reports whether a text can name a plugin, a provider or a version.
func IsName(s string) bool { return checkName(s) == "" }

// checksumPrefix may stand before a checksum.
const checksumPrefix = "sha256:"

// ParseChecksum returns a SHA-256 as 64 lower hexadecimal digits, which may be
// written with "sha256:" before them.
func ParseChecksum(s string) (string, error) {
	sum := strings.ToLower(strings.TrimPrefix(s, checksumPrefix))
	if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
		return "", fmt.Errorf("%q is no SHA-256: write sha256: and 64 hexadecimal digits", s)
	}
	return sum, nil
}

// PluginDir returns the folder of plugins without touching it; empty when nothing
// says where it is.
func (c *Config) PluginDir() string {
	if v := c.values[SettingPlugins]; v.set {
		return c.abs(v.text)
	}
	if dir := c.env.Get("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "windlass", "plugins")
	}
	if home := homeDir(c.env); home != "" {
		return filepath.Join(home, ".local", "share", "windlass", "plugins")
	}
	return ""
}

// Program is the path of a plugin's program in its own folder, whose name it bears.
func Program(dir string) string {
	name := filepath.Base(dir)
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	return filepath.Join(dir, name)
}

// PluginNames returns the names of all plugins, sorted.
func (c *Config) PluginNames() []string {
	out := make([]string, 0, len(c.plugins))
	for name := range c.plugins {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Plugin returns the plugin of that name; NotFound lists those that there are.
func (c *Config) Plugin(name string) (Plugin, error) {
	if p, ok := c.plugins[name]; ok {
		return p, nil
	}
	if bad := checkName(name); bad != "" {
		p := Problem{ID: ErrUnknownPlugin, Message: fmt.Sprintf("%q can't be a plugin's name: %s", name, bad), Remedy: "`windlass plugin ls` lists those that there are"}
		if at := filepath.Join(c.PluginDir(), name); c.PluginDir() != "" && filepath.IsLocal(name) && isDir(at) {
			p.Remedy = "give the folder " + at + " and the program in it another name"
		}
		return Plugin{}, &sdk.Error{Code: sdk.InvalidArgument, Op: "find plugin", ID: p.ID, Remedy: p.Remedy, Err: &Invalid{Problems: []Problem{p}}}
	}
	names := c.PluginNames()
	have := "there is none"
	if len(names) > 0 {
		have = "there are " + strings.Join(names, ", ")
	}
	p := Problem{ID: ErrUnknownPlugin, Message: fmt.Sprintf("no plugin is called %q", name) + meant(name, names),
		Remedy: have + "; `windlass plugin install` adds one, and so does an entry under plugins: in windlass.yaml"}
	return Plugin{}, &sdk.Error{Code: sdk.NotFound, Op: "find plugin", ID: p.ID, Remedy: p.Remedy, Err: &Invalid{Problems: []Problem{p}}}
}

// PluginEnv returns the NAME=value of those variables that a plugin gets and that are
// set.
func (c *Config) PluginEnv(p Plugin) []string {
	var out []string
	names := p.Env
	if runtime.GOOS == "windows" {
		// Without it no program finds the system's own libraries.
		names = append(slices.Clone(names), "SYSTEMROOT")
	}
	for _, name := range names {
		if v, ok := c.env.Lookup(name); ok {
			out = append(out, name+"="+v)
		}
	}
	return out
}

// addPlugins adds what stands in the folder of plugins and has no entry.
func (c *Config) addPlugins() {
	dir := c.PluginDir()
	if dir == "" {
		return
	}
	list, _ := os.ReadDir(dir) // without it there are none
	for _, e := range list {
		name := e.Name()
		at := filepath.Join(dir, name)
		if strings.HasPrefix(name, ".") || !isDir(at) {
			continue
		}
		if p, has := c.plugins[name]; has {
			if !p.InFolder && !sameFile(p.Path, Program(at)) {
				c.PluginNotes = append(c.PluginNotes, fmt.Sprintf("the plugin in the folder %q isn't used: plugins.%s.path in %s names another program, %s", at, name, p.Origin.Name, p.Path))
			}
			continue
		}
		if bad := checkName(name); bad != "" {
			c.PluginWarnings = append(c.PluginWarnings, fmt.Sprintf("the folder %q is no plugin and is ignored: %s", at, bad))
			continue
		}
		c.plugins[name] = Plugin{Name: name, Path: Program(at), InFolder: true}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	two, err2 := os.Stat(b)
	return err == nil && err2 == nil && os.SameFile(one, two)
}

// plugin makes the plugin of an entry. Values that are wrong were reported before.
func (c *Config) plugin(f *file, name string, n *yamltree.Node) Plugin {
	p := Plugin{Name: name, Origin: f.origin(n.Line, n.Column), file: f, at: n}
	if e := n.Get("path"); e != nil && e.Value.Text != "" {
		p.Path = e.Value.Text
		if !filepath.IsAbs(p.Path) {
			p.Path = filepath.Join(filepath.Dir(f.path), p.Path)
		}
	} else if dir := c.PluginDir(); dir != "" {
		p.Path, p.InFolder = Program(filepath.Join(dir, name)), true
	}
	if e := n.Get("checksum"); e != nil {
		p.Checksum, _ = ParseChecksum(e.Value.Text)
	}
	if e := n.Get("config"); e != nil && e.Value.Kind == yamltree.Map {
		p.Config = e.Value.JSON()
	}
	if e := n.Get("env"); e != nil {
		for _, v := range e.Value.Items {
			p.Env = append(p.Env, v.Text)
		}
	}
	return p
}

// checkPlugin returns what is wrong with an entry beyond the shape of its keys.
func (f *file) checkPlugin(e yamltree.Field, key string) []Problem {
	var ps []Problem
	if s := e.Value.Get("checksum"); s != nil && s.Value.Kind == yamltree.Text {
		if _, err := ParseChecksum(s.Value.Text); err != nil {
			ps = append(ps, Problem{ID: ErrBadValue, Origin: f.origin(s.Value.Line, s.Value.Column), Key: key + ".checksum", Message: err.Error(),
				Remedy: "`windlass plugin check " + e.Key + "` prints the one that the program has"})
		}
	}
	if v := e.Value.Get("env"); v != nil {
		for i, name := range v.Value.Items {
			if name.Kind == yamltree.Text && (name.Text == "" || strings.ContainsAny(name.Text, "=\x00")) {
				ps = append(ps, Problem{ID: ErrBadValue, Origin: f.origin(name.Line, name.Column), Key: fmt.Sprintf("%s.env[%d]", key, i),
					Message: fmt.Sprintf("%q is no variable's name", name.Text), Remedy: "list names alone: their values are those of the command's environment"})
			}
		}
	}
	return ps
}

// Where returns where a member of the entry's config stands, such as "config.region";
// what isn't there is nearest to what is.
func (p Plugin) Where(field string) Origin {
	return placing{p.Origin, p.file, p.at}.place(strings.TrimPrefix(strings.TrimPrefix(field, "config"), "."), false)
}

// show lists the entry. What its config holds is described by the plugin alone, so it
// may be sensitive.
func (p Plugin) show() []Row {
	rows := []Row{{Name: "plugins." + p.Name + ".path", Value: p.Path, Origin: p.Origin}}
	if p.Origin.Kind == "" {
		rows[0].Origin = Origin{Kind: FromDefault}
	}
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, Row{Name: "plugins." + p.Name + "." + key, Value: value, Origin: p.Origin})
		}
	}
	add("checksum", p.Checksum)
	add("env", strings.Join(p.Env, ", "))
	if p.Config != nil {
		add("config", sdk.Redacted)
	}
	return rows
}

// Validate refuses a plugin that has the name of a driver's kind.
func (p Plugin) Validate(drivers []sdk.Driver) error {
	return invalid("find plugin", p.problems(drivers))
}

func (p Plugin) problems(drivers []sdk.Driver) []Problem {
	if !slices.ContainsFunc(drivers, func(d sdk.Driver) bool { return d.Kind == p.Name }) {
		return nil
	}
	remedy := "give it another name"
	if p.Origin.Kind == "" && p.Path != "" {
		at := filepath.Dir(p.Path)
		return []Problem{{ID: ErrBadValue, Message: "the folder " + at + " has the name of a kind that is built in", Remedy: "remove it, or give it and the program in it another name"}}
	}
	return []Problem{{ID: ErrBadValue, Origin: p.Origin, Key: "plugins." + p.Name, Message: "has the name of a kind that is built in", Remedy: remedy}}
}
