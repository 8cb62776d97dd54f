package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

func newPlugin(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "plugin ls|check|install",
		Aliases: []string{"plugins"},
		Short:   "List, check and install plugins",
		Args:    group,
		RunE:    groupHelp,
	}
	cmd.AddCommand(newPluginLs(f, nil), newPluginCheck(f, nil), newPluginInstall(f, nil))
	return cmd
}

// completePlugins completes names of plugins.
func (f *Factory) completePlugins(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, err := f.cfg()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.PluginNames(), cobra.ShellCompDirectiveNoFileComp
}

// PluginView is a plugin as it stands.
type PluginView struct {
	Name     string   `json:"name" doc:"Name, which is the kind of its providers."`
	Version  string   `json:"version,omitzero" doc:"Version, as plugin.json has it."`
	Path     string   `json:"path" doc:"Its program."`
	Services []string `json:"services" doc:"Services that plugin.json names."`
	State    string   `json:"state" doc:"verified, unverified or refused."`
	SHA256   string   `json:"sha256,omitzero" doc:"The program's SHA-256, where it can be read."`
	Why      string   `json:"why,omitzero" doc:"Why it is refused."`
	Origin   string   `json:"origin" doc:"Where it is configured, or the folder of plugins."`
}

// States of plugins that weren't started.
const (
	pluginVerified   = "verified"
	pluginUnverified = "unverified"
	pluginRefused    = "refused"
)

type pluginLsOptions struct {
	f    *Factory
	json bool
}

func newPluginLs(f *Factory, runF func(context.Context, *pluginLsOptions) error) *cobra.Command {
	o := &pluginLsOptions{f: f}
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List plugins",
		Long: `List the plugins of windlass.yaml and of the folder of plugins. None is started. A
plugin is verified when its program has the checksum of windlass.yaml or of its
installation, unverified when neither has one, and refused when it wouldn't be
started.`,
		Example: "  windlass plugin ls",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run()
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *pluginLsOptions) run() error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	views := []PluginView{}
	t := &table{head: []string{"NAME", "VERSION", "STATE", "PATH", "SERVICES"}, flex: 3, below: true}
	for _, name := range c.PluginNames() {
		p, err := c.Plugin(name)
		if err != nil {
			return err
		}
		v := o.f.viewPlugin(p)
		views = append(views, v)
		t.add(plain(v.Name), plain(v.Version), plain(v.State), plain(v.Path), plain(shortServices(v.Services)))
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, views)
	}
	if err := t.print(o.f.Streams); err != nil {
		return err
	}
	o.f.notePlugins(c)
	for _, v := range views {
		if v.Why != "" {
			o.f.Streams.note("%s is refused: %s", v.Name, v.Why)
		}
	}
	return nil
}

// notePlugins tells what lies in the folder of plugins and is none.
func (f *Factory) notePlugins(c *config.Config) {
	for _, w := range slices.Concat(c.PluginWarnings, c.PluginNotes) {
		f.Streams.note("%s", w)
	}
}

func (f *Factory) viewPlugin(p config.Plugin) PluginView {
	look := pluginhost.Look(p)
	if err := p.Validate(f.Drivers()); err != nil {
		look.Err = err
	}
	v := PluginView{Name: p.Name, Version: look.Manifest.Version, Path: p.Path, Services: look.Manifest.Services, SHA256: look.SHA256, State: pluginUnverified, Origin: p.Origin.String()}
	if v.Services == nil {
		v.Services = []string{}
	}
	if p.Origin.Kind == "" {
		v.Origin = "the folder of plugins"
	}
	switch {
	case look.Err != nil:
		v.State, v.Why = pluginRefused, f.Streams.describe(look.Err).Message
	case look.Verified:
		v.State = pluginVerified
	}
	return v
}

// shortServices leaves out what the names of services have in common.
func shortServices(names []string) string {
	short := make([]string, len(names))
	for i, n := range names {
		short[i] = strings.TrimSuffix(n[strings.LastIndexByte(n, '.')+1:], "Service")
	}
	return strings.Join(short, ", ")
}

// plugins are the plugins of a configuration, whose processes come from source.
func pluginsOf(c *config.Config, source pluginhost.Source) *pluginhost.Plugins {
	return &pluginhost.Plugins{Source: source, Config: c, IDs: sdk.NewIDSource(sdk.SystemClock())}
}

// pluginDriver starts a plugin to ask for its driver, and opens no provider.
func (f *Factory) pluginDriver(ctx context.Context, kind string) (*sdk.Driver, error) {
	c, err := f.cfg()
	if err != nil {
		return nil, err
	}
	host := f.pluginHost()
	defer func() { _ = host.Close() }() // it ends what was started
	d, err := pluginsOf(c, host).Driver(ctx, kind)
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// pluginHost is a host for a command that only looks.
func (f *Factory) pluginHost() *pluginhost.Host {
	// What a plugin says when it doesn't get ready is shown.
	var red secret.Redactor
	return pluginhost.New(pluginhost.Options{Log: slog.New(slog.DiscardHandler), Know: red.Know,
		Redact: func(text string) string { return f.Streams.redact(red.Redact(text)) }})
}

type pluginCheckOptions struct {
	f     *Factory
	names []string
	json  bool
}

func newPluginCheck(f *Factory, runF func(context.Context, *pluginCheckOptions) error) *cobra.Command {
	o := &pluginCheckOptions{f: f}
	cmd := &cobra.Command{
		Use:   "check [NAME...]",
		Short: "Start plugins and compare them with what they say",
		Long: `Start plugins, all of them by default, and compare what they say with their
plugin.json and with what this program knows: the checksum, the handshake, the
manifest, the services of the live registry, the config of the entry. It opens no
provider and changes nothing. The exit code is 1 when something has to be mended.`,
		Example: "  windlass plugin check mycloud",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completePlugins,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *pluginCheckOptions) run(ctx context.Context) (err error) {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	names := o.names
	if len(names) == 0 {
		names = c.PluginNames()
		o.f.notePlugins(c)
	}
	host := o.f.pluginHost()
	defer func() { _ = host.Close() }() // it ends what was started
	plugins := pluginsOf(c, host)
	checks := []CheckView{}
	for _, name := range names {
		p, err := c.Plugin(name)
		if err != nil {
			return err
		}
		if err := p.Validate(o.f.Drivers()); err != nil {
			for _, x := range config.ProblemsOf(err) {
				remedy := x.Remedy
				x.Remedy = ""
				checks = append(checks, CheckView{Subject: name, Name: "name", Needed: true, Detail: x.String(), Remedy: remedy})
			}
			continue
		}
		checks = append(checks, viewChecks(name, plugins.Check(ctx, name))...)
	}
	return printChecks(o.f.Streams, checks, o.json)
}

var errNoPluginDir = errors.New("neither WINDLASS_PLUGINS, XDG_DATA_HOME nor HOME says where the folder of plugins is")

type pluginInstallOptions struct {
	f     *Factory
	what  string
	index string
	json  bool
}

func newPluginInstall(f *Factory, runF func(context.Context, *pluginInstallOptions) error) *cobra.Command {
	o := &pluginInstallOptions{f: f}
	cmd := &cobra.Command{
		Use:   "install NAME@VERSION",
		Short: "Install a plugin from an index",
		Long: `Fetch a plugin's program for this system from where an index says, check it against
the index's SHA-256, and put it into the folder of plugins: whole, or not at all.
The index is a file or an https address. Processes that run already go on with the
version that they have.`,
		Example: "  windlass plugin install mycloud@1.2.3 --index https://plugins.example.com/index.json",
		Args:    exactly(1, "NAME@VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.what = args[0]
			if o.index == "" {
				return usagef(cmd, "--index is missing: a file, or an https address")
			}
			if name, version, ok := strings.Cut(o.what, "@"); !ok || !config.IsName(name) || !config.IsName(version) {
				return usagef(cmd, "%q isn't NAME@VERSION", o.what)
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&o.index, "index", "", "`file` or https address that lists plugins")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// PluginInstalledView is a plugin that was installed.
type PluginInstalledView struct {
	Name     string `json:"name" doc:"Name, which is the kind of its providers."`
	Version  string `json:"version" doc:"Version that is there now."`
	Path     string `json:"path" doc:"Its program."`
	SHA256   string `json:"sha256" doc:"The program's SHA-256."`
	From     string `json:"from" doc:"Address that it came from."`
	Already  bool   `json:"already" doc:"It was there, and nothing was fetched."`
	Replaced string `json:"replaced,omitzero" doc:"Version that was there before."`
}

func (o *pluginInstallOptions) run(ctx context.Context) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	name, version, _ := strings.Cut(o.what, "@")
	if err := (config.Plugin{Name: name}).Validate(o.f.Drivers()); err != nil {
		return err
	}
	dir := c.PluginDir()
	if dir == "" {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "install plugin " + name, ID: pluginhost.ErrInstall,
			Err: errNoPluginDir, Remedy: "set WINDLASS_PLUGINS to a folder of your own"}
	}
	index := o.index
	if !strings.Contains(index, "://") && !filepath.IsAbs(index) {
		index = filepath.Join(o.f.Dir, index)
	}
	got, err := pluginhost.Install(ctx, pluginhost.InstallRequest{Name: name, Version: version, Index: index, Dir: dir, OS: runtime.GOOS, Arch: runtime.GOARCH})
	if err != nil {
		return err
	}
	s := o.f.Streams
	if o.json {
		return writeJSON(s.Out, PluginInstalledView{Name: name, Version: version, Path: got.Path, SHA256: got.SHA256, From: got.From, Already: got.Already, Replaced: got.Replaced})
	}
	t := &fields{s: s}
	t.add("Plugin", name+" "+version)
	switch {
	case got.Already:
		t.add("Installed", "already")
	case got.Replaced != "":
		t.add("Installed", "in place of "+got.Replaced)
	default:
		t.add("Installed", "anew")
	}
	t.add("Program", got.Path)
	t.add("SHA-256", got.SHA256)
	t.add("From", got.From)
	t.add("Next", "windlass plugin check "+name)
	return t.print()
}
