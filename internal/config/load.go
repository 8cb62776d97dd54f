package config

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// LoadRequest brings everything that a configuration is read from.
type LoadRequest struct {
	// Env is the environment; Environ in a program.
	Env Env
	// Dir is the working folder, absolute. Empty looks for no project's file.
	Dir string
	// ExplicitFile, when set, is read in place of the files that would be
	// found. Relative paths start at Dir.
	ExplicitFile string
	// Flags holds the flags that were given, by name without dashes. Those
	// that are in no row of Settings are ignored.
	Flags map[string]string
	// KnownVars are further variables of ours that are no settings.
	KnownVars []string
}

// Config is a configuration in force. It doesn't change once it is loaded.
type Config struct {
	// DefaultProvider is the provider to use; empty leaves it to the job.
	DefaultProvider string
	// Owner is the installation's name; empty is the ledger's ID.
	Owner string
	// Actor is who acts; never empty.
	Actor string
	// Keeper reports whether a background process may look after runs.
	Keeper bool
	// LogMaxBytes is how much of an attempt's output is kept.
	LogMaxBytes int64
	// KeepLogs and KeepRuns are how long; zero is until removed by hand.
	KeepLogs, KeepRuns time.Duration
	// KeepSize is how many bytes of output are kept, KeepRows how long actions stay
	// on record; zero is all, and until cut by hand.
	KeepSize int64
	KeepRows time.Duration
	// Files are the files that were read, nearest first.
	Files []string
	// Warnings are things that the user should know, one sentence each.
	Warnings []string
	// PluginWarnings are those of Warnings that are about the folder of plugins.
	PluginWarnings []string
	// PluginNotes say which plugins of that folder an entry of windlass.yaml hides:
	// worth a word where plugins are looked at.
	PluginNotes []string

	env       Env
	dir       string
	values    map[string]value // by setting's name
	files     []*file
	providers map[string]Provider
	runners   map[string]Runner
	plugins   map[string]Plugin
}

// value is a setting in force.
type value struct {
	text   string
	n      int64
	f      float64
	origin Origin
	set    bool
}

// Load reads the configuration. All problems come back at once in one error,
// an *sdk.Error whose cause is *Invalid.
func Load(ctx context.Context, r LoadRequest) (*Config, error) {
	c, ps, err := read(ctx, r)
	if err == nil {
		err = invalid("read config", ps)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Check is Load and Validate in one: what either finds wrong comes back at once. The
// configuration is returned beside its problems, and nil only where ctx has ended.
func Check(ctx context.Context, r LoadRequest, drivers []sdk.Driver) (*Config, error) {
	c, ps, err := read(ctx, r)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(ps, unread) {
		found := ps
		for _, p := range c.problems(drivers) {
			if !slices.ContainsFunc(found, func(q Problem) bool { return q.covers(p) }) {
				ps = append(ps, p)
			}
		}
	}
	return c, invalid("read config", ps)
}

// unread reports whether a problem keeps a file from being known at all, so that nothing
// can be said of what might stand in it.
func unread(p Problem) bool {
	switch p.ID {
	case ErrUnreadable, ErrUntrusted, ErrSyntax, ErrDuplicateKey:
		return true
	}
	return false
}

// covers reports whether what a driver finds wrong only follows from p, which is wrong
// with the same key, or with the entry around it.
func (p Problem) covers(q Problem) bool {
	return q.ID != ErrBadValue && p.Key != "" && (q.Key == p.Key || strings.HasPrefix(q.Key, p.Key+"."))
}

// read reads the configuration, with everything that is wrong with it in itself.
func read(ctx context.Context, r LoadRequest) (*Config, []Problem, error) {
	c := &Config{env: r.Env, dir: r.Dir, values: map[string]value{}, providers: map[string]Provider{},
		runners: map[string]Runner{}, plugins: map[string]Plugin{}}
	files, ps := findFiles(ctx, r)
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("read config: %w", context.Cause(ctx))
	}
	c.files = files
	table := Settings()
	root := fileShape(table)
	for _, f := range files {
		c.Files = append(c.Files, f.path)
		ps = append(ps, f.check(root)...)
	}
	ps = append(ps, c.resolve(table, r.Flags)...)
	c.fill()
	for i := len(files) - 1; i >= 0; i-- {
		c.addNamed(files[i])
	}
	c.addPlugins()
	for _, name := range builtin() {
		if _, ok := c.providers[name]; !ok {
			c.providers[name] = c.provider(name, nil, nil)
		}
	}
	if v := c.values[SettingProvider]; v.set && !slices.ContainsFunc(ps, unread) {
		if _, ok := c.providers[v.text]; !ok {
			p := c.noProvider(v.text, v.origin)
			p.Key = SettingProvider
			ps = append(ps, p)
		}
	}
	if plugins := c.PluginNames(); len(plugins) > 0 {
		for name, p := range c.providers {
			p.plugins = plugins
			c.providers[name] = p
		}
	}
	c.warn(table, r.KnownVars)
	c.Warnings = append(c.Warnings, c.PluginWarnings...)
	return c, ps, nil
}

// resolve finds each setting's value that isn't of a named entry.
func (c *Config) resolve(table []Setting, flags map[string]string) []Problem {
	var ps []Problem
	for _, s := range table {
		if strings.Contains(s.Name, anyName) {
			continue
		}
		v := value{text: s.Default, origin: Origin{Kind: FromDefault}}
		if text, ok := flags[s.Flag]; ok && s.Flag != "" {
			v = value{text: text, origin: Origin{Kind: FromFlag, Name: s.Flag}, set: true}
		} else if text := c.env.Get(s.Env); s.Env != "" && text != "" {
			v = value{text: text, origin: Origin{Kind: FromEnvironment, Name: s.Env}, set: true}
		} else {
			for _, f := range c.files {
				if n := f.scalar(s.YAML); n != nil {
					v = value{text: n.Text, origin: f.origin(n.Line, n.Column), set: true}
					break
				}
			}
		}
		if v.text != "" || v.set {
			parsed, msg, remedy := s.parse(v.text)
			if msg != "" {
				// What stands in a file was reported with the file.
				if v.origin.Kind != FromFile {
					ps = append(ps, Problem{ID: ErrBadValue, Origin: v.origin, Key: s.Name, Message: msg, Remedy: remedy})
				}
				continue
			}
			parsed.origin, parsed.set = v.origin, v.set
			v = parsed
		}
		c.values[s.Name] = v
	}
	return ps
}

func (c *Config) fill() {
	if v := c.values[SettingActor]; !v.set {
		v.text = c.env.defaultActor()
		c.values[SettingActor] = v
	}
	c.DefaultProvider = c.values[SettingProvider].text
	c.Owner = c.values[SettingOwner].text
	c.Actor = c.values[SettingActor].text
	c.Keeper = c.values[SettingKeeper].text != KeeperOff
	c.LogMaxBytes = c.values[SettingLogBytes].n
	c.KeepLogs = time.Duration(c.values[SettingKeepLogs].n)
	c.KeepRuns = time.Duration(c.values[SettingKeepRuns].n)
	c.KeepSize = c.values[SettingKeepSize].n
	c.KeepRows = time.Duration(c.values[SettingKeepRows].n)
}

// addNamed adds a file's providers, runners and plugins over those that are
// there.
func (c *Config) addNamed(f *file) {
	each := func(key string, do func(name string, n *yamltree.Node)) {
		if top := f.root.Get(key); top != nil && top.Value.Kind == yamltree.Map {
			for _, e := range top.Value.Fields {
				do(e.Key, e.Value)
			}
		}
	}
	each("providers", func(name string, n *yamltree.Node) { c.providers[name] = c.provider(name, f, n) })
	each("runners", func(name string, n *yamltree.Node) { c.runners[name] = f.runner(name, n) })
	each("plugins", func(name string, n *yamltree.Node) { c.plugins[name] = c.plugin(f, name, n) })
}

// provider makes the provider of an entry, which may be nil. Values that are
// wrong were reported before.
func (c *Config) provider(name string, f *file, n *yamltree.Node) Provider {
	p := Provider{Name: name, Kind: name, Origin: Origin{Kind: FromDefault}, file: f}
	if n != nil {
		p.at = n
		p.Origin = f.origin(n.Line, n.Column)
	}
	get := func(key string) value {
		for _, s := range Settings() {
			if s.Name == "providers.NAME."+key {
				v, _, _ := s.parse(s.Default)
				if n == nil {
					return v
				}
				if e := n.Get(key); e != nil && e.Value.Kind != yamltree.Null {
					v, _, _ = s.parse(e.Value.Text)
				}
				return v
			}
		}
		return value{}
	}
	if kind := get("kind").text; kind != "" {
		p.Kind = kind
	}
	p.Credentials = CredentialMode(get("credentials").text)
	p.PollInterval = time.Duration(get("poll_interval").n)
	p.CallTimeout = time.Duration(get("call_timeout").n)
	p.MaxInFlight = int(get("max_in_flight").n)
	p.SubmitRate = get("submit_rate").f
	if n != nil {
		if e := n.Get("config"); e != nil && e.Value.Kind == yamltree.Map {
			p.Config = e.Value.JSON()
		}
	}
	return p
}

// warn collects what is odd, but no error.
func (c *Config) warn(table []Setting, known []string) {
	var names, ends []string // whole, and without what all begin with
	for _, s := range table {
		if s.Env != "" {
			names, ends = append(names, s.Env), append(ends, strings.TrimPrefix(s.Env, EnvPrefix))
		}
	}
	names = append(names, known...)
	for _, v := range c.env.Names() {
		if !strings.HasPrefix(v, EnvPrefix) || slices.Contains(names, v) || isOther(v) {
			continue
		}
		w := fmt.Sprintf("the variable %s is no setting and is ignored", v)
		if near := sdk.Nearest(strings.TrimPrefix(v, EnvPrefix), ends); near != "" {
			w += fmt.Sprintf("; did you mean %s?", EnvPrefix+near)
		}
		c.Warnings = append(c.Warnings, w)
	}
}

func isOther(name string) bool {
	return slices.ContainsFunc(OtherVars(), func(v [2]string) bool {
		prefix, star := strings.CutSuffix(v[0], "*")
		return name == v[0] || star && strings.HasPrefix(name, prefix)
	})
}

// Env returns the environment that the configuration was read from.
func (c *Config) Env() Env { return c.env }

// Origin returns where a setting's value comes from.
func (c *Config) Origin(setting string) Origin { return c.values[setting].origin }

func (c *Config) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.dir, path)
}
