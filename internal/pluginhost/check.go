package pluginhost

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

// View is what can be told of a plugin without starting it.
type View struct {
	Manifest Manifest
	// SHA256 is the program's; empty when it can't be read.
	SHA256 string
	// Verified: its checksum is one that was trusted.
	Verified bool
	// Err is why it wouldn't be started.
	Err error
}

// Look looks at a plugin and starts nothing.
func Look(p config.Plugin) View {
	var v View
	v.SHA256, v.Err = Verify(p)
	want, err := Expected(p)
	v.Verified = v.Err == nil && err == nil && want != ""
	m, err := readManifest(p.Path)
	if err != nil && v.Err == nil {
		v.Err = err
	}
	v.Manifest = m
	return v
}

// Check starts a plugin and compares what it says with what its manifest says, and with
// what this program knows. Items that aren't OK are to be mended; the plugin's own
// services that this program doesn't know are told, and do no harm.
func (s *Plugins) Check(ctx context.Context, name string) []sdk.CheckItem {
	var out []sdk.CheckItem
	add := func(ok bool, what, remedy, format string, args ...any) {
		out = append(out, sdk.CheckItem{Name: what, OK: ok, Detail: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	req, err := s.Request(name, nil)
	if err != nil {
		return append(out, failed("program", err))
	}
	v := Look(req.Plugin)
	switch {
	case v.Err != nil:
		return append(out, failed("program", v.Err))
	case !v.Verified:
		add(true, "program", "", "%s is unverified; checksum: sha256:%s under plugins.%s would pin it", req.Plugin.Path, v.SHA256, name)
	default:
		add(true, "program", "", "%s has the SHA-256 that was trusted, %s", req.Plugin.Path, v.SHA256)
	}
	l, err := s.process(ctx, req)
	if err != nil {
		it := failed("start", err)
		if errors.Is(err, sdk.Unavailable) {
			it.Remedy = "run " + req.Plugin.Path + " by hand: a plugin says that it is one, and ends; then run its author's tests"
		}
		return append(out, it)
	}
	defer l.Release()
	add(true, "start", "", "it is ready")
	out = append(out, s.compare(name, v.Manifest, l.Contract)...)
	d, err := s.describe(ctx, name, l)
	if err != nil {
		return append(out, failed("driver", err))
	}
	detail := d.Kind
	if d.Doc != "" {
		detail += ": " + d.Doc
	}
	add(true, "driver", "", "%s", detail)
	switch {
	case len(req.Plugin.Config) == 0:
	case l.Contract.own():
		out = append(out, configured(req.Plugin, d.Config)...)
	default:
		add(true, "config", "", "what it takes it says when it is told: windlass provider check of a provider of it shows whether it takes this")
	}
	for _, c := range d.Capabilities {
		if l.Contract.own() && !l.Contract.Serves(c) {
			add(false, c, "tell its author", "the driver names it and the live registry doesn't: it isn't used")
		}
	}
	return out
}

// configured checks what the plugin's entry has for its providers.
func configured(p config.Plugin, s sdk.Schema) []sdk.CheckItem {
	problems := config.ProblemsOf(p.CheckConfig(s))
	if len(problems) == 0 {
		return []sdk.CheckItem{{Name: "config", OK: true, Detail: "the plugin takes what plugins." + p.Name + ".config has for its providers"}}
	}
	var out []sdk.CheckItem
	for _, x := range problems {
		remedy := x.Remedy
		x.Remedy = ""
		out = append(out, sdk.CheckItem{Name: "config", Detail: x.String(), Remedy: remedy})
	}
	return out
}

// failed is the item of an error: what it says, and what it says to do.
func failed(what string, err error) sdk.CheckItem {
	it := sdk.CheckItem{Name: what, Detail: err.Error(), Remedy: "tell its author"}
	var e *sdk.Error
	if !errors.As(err, &e) {
		return it
	}
	if e.Err != nil {
		it.Detail = e.Err.Error()
	}
	if e.Remedy != "" {
		it.Remedy = e.Remedy
	}
	if e.ID != "" {
		it.Remedy += "; windlass explain " + e.ID + " says more"
	}
	return it
}

// compare compares the file's manifest with what the process says.
func (s *Plugins) compare(name string, file Manifest, c Contract) []sdk.CheckItem {
	var out []sdk.CheckItem
	add := func(ok bool, what, remedy, format string, args ...any) {
		out = append(out, sdk.CheckItem{Name: what, OK: ok, Detail: fmt.Sprintf(format, args...), Remedy: remedy})
	}
	const mend = "mend plugin.json, or tell its author"
	m := c.Manifest
	switch {
	case m.Name != "" && m.Name != name && c.NoManifest:
		add(false, "manifest", mend, "%s calls it %q", ManifestName, m.Name)
	case m.Name != "" && m.Name != name:
		add(false, "manifest", s.misnamed(name, m.Name), "it calls itself %q", m.Name)
	case c.NoManifest && file.Name+file.Version+file.Author == "":
		add(true, "manifest", "", "it doesn't say who it is, and neither does a %s", ManifestName)
	case file.Version != "" && m.Version != file.Version:
		add(false, "manifest", mend, "%s says version %q, and the process %q", ManifestName, file.Version, m.Version)
	default:
		from := "the process says"
		if c.NoManifest {
			from = ManifestName + " says"
		}
		add(true, "manifest", "", "%s: %s", from, strings.TrimSpace(strings.Join([]string{m.Name, m.Version, m.Author}, " ")))
	}
	switch {
	case c.NoRegistry:
		add(false, "registry", "tell its author: a service that isn't in it isn't used", "it has none, so no service counts as served")
	default:
		add(true, "registry", "", "%s", strings.Join(c.Services, ", "))
	}
	for _, want := range file.Services {
		if !slices.Contains(c.Services, want) {
			add(false, want, mend, "%s names it and the live registry doesn't", ManifestName)
		}
	}
	if len(file.Services) > 0 { // a file may say nothing of them
		for _, got := range c.offered() {
			if !slices.Contains(file.Services, got) {
				add(false, got, mend, "the live registry names it and %s doesn't", ManifestName)
			}
		}
	}
	if more := c.Unknown(); len(more) > 0 {
		add(true, "unknown", "", "this program doesn't know %s, and ignores it", strings.Join(more, ", "))
	}
	return out
}
