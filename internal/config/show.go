package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// Row is one setting in force, as `config show` prints it.
type Row struct {
	Name  string
	Value string
	// Note says in words what a value means that doesn't tell it itself; empty
	// for the others.
	Note string
	// Origin is where the value comes from.
	Origin Origin
}

// Show returns every setting in force with its origin, in the table's order,
// providers by name. The drivers' schemas say which values of a provider's
// config are sensitive; those, and all of a kind that is none of drivers', are
// redacted.
func (c *Config) Show(drivers []sdk.Driver) []Row {
	var rows []Row
	for _, s := range Settings() {
		if strings.Contains(s.Name, anyName) {
			continue
		}
		v := c.values[s.Name]
		row := Row{Name: s.Name, Value: v.text, Origin: v.origin}
		switch {
		case s.Name == SettingKeepLogs && c.KeepLogs <= 0, s.Name == SettingKeepRuns && c.KeepRuns <= 0,
			s.Name == SettingKeepRows && c.KeepRows <= 0, s.Name == SettingKeepSize && c.KeepSize <= 0:
			row.Note = "no bound"
		}
		if s.Name == SettingState {
			if path, err := c.StatePath(); err == nil {
				row.Value = path
			}
		}
		rows = append(rows, row)
	}
	for _, name := range c.ProviderNames() {
		rows = append(rows, c.providers[name].show(drivers)...)
	}
	for _, name := range c.RunnerNames() {
		rows = append(rows, c.runners[name].show()...)
	}
	for _, name := range c.PluginNames() {
		rows = append(rows, c.plugins[name].show()...)
	}
	return rows
}

// Hidden returns the texts in the files that Show redacts, with those that are told to
// plugins, for a redactor.
func (c *Config) Hidden(drivers []sdk.Driver) []sdk.SecretValue {
	var out []sdk.SecretValue
	var leaves func(n *yamltree.Node)
	leaves = func(n *yamltree.Node) {
		for _, e := range n.Fields {
			leaves(e.Value)
		}
		for _, item := range n.Items {
			leaves(item)
		}
		if n.Kind == yamltree.Text && n.Text != "" || (n.Kind == yamltree.Int || n.Kind == yamltree.Float) && len(n.Text) > 5 {
			out = append(out, sdk.NewSecretValue([]byte(n.Text)))
		}
	}
	var hidden func(n *yamltree.Node, fields []sdk.SchemaField, hide bool)
	hidden = func(n *yamltree.Node, fields []sdk.SchemaField, hide bool) {
		for _, e := range n.Fields {
			switch i := slices.IndexFunc(fields, func(f sdk.SchemaField) bool { return f.Name == e.Key }); {
			case hide || i < 0 || sensitiveElem(fields[i]) && fields[i].Type != sdk.TypeObject || fields[i].Sensitive:
				leaves(e.Value)
			case fields[i].Type == sdk.TypeObject && e.Value.Kind == yamltree.Map:
				hidden(e.Value, fields[i].Fields, false)
			}
		}
	}
	for _, name := range c.ProviderNames() {
		p := c.providers[name]
		if p.at == nil {
			continue
		}
		if e := p.at.Get("config"); e != nil {
			i := slices.IndexFunc(drivers, func(d sdk.Driver) bool { return d.Kind == p.Kind })
			if i < 0 {
				hidden(e.Value, nil, true)
			} else {
				hidden(e.Value, drivers[i].Config.Fields, false)
			}
		}
	}
	for _, f := range c.files {
		if plugins := f.root.Get("plugins"); plugins != nil {
			for _, p := range plugins.Value.Fields {
				if e := p.Value.Get("config"); e != nil {
					leaves(e.Value)
				}
			}
		}
	}
	return out
}

func (p Provider) show(drivers []sdk.Driver) []Row {
	prefix := "providers." + p.Name + "."
	var rows []Row
	for _, r := range []struct{ key, value string }{
		{"kind", p.Kind},
		{"credentials", string(p.Credentials)},
		{"poll_interval", FormatDuration(p.PollInterval)},
		{"call_timeout", FormatDuration(p.CallTimeout)},
		{"max_in_flight", strconv.Itoa(p.MaxInFlight)},
		{"submit_rate", strconv.FormatFloat(p.SubmitRate, 'g', -1, 64)},
	} {
		row := Row{Name: prefix + r.key, Value: r.value, Origin: Origin{Kind: FromDefault}}
		if r.value == "0" {
			row.Note = "no bound"
		}
		if p.at != nil {
			if e := p.at.Get(r.key); e != nil && e.Value.Kind != yamltree.Null {
				row.Origin = p.file.origin(e.Value.Line, e.Value.Column)
			}
		}
		rows = append(rows, row)
	}
	if p.at == nil {
		return rows
	}
	e := p.at.Get("config")
	if e == nil || e.Value.Kind != yamltree.Map {
		return rows
	}
	var fields []sdk.SchemaField
	known := false
	for _, d := range drivers {
		if d.Kind == p.Kind {
			fields, known = d.Config.Fields, true
		}
	}
	return append(rows, p.showMap(prefix+"config", e.Value, fields, !known)...)
}

// showMap lists the leaves of a provider's config. What no schema describes is
// hidden.
func (p Provider) showMap(path string, n *yamltree.Node, fields []sdk.SchemaField, hide bool) []Row {
	var rows []Row
	for _, e := range n.Fields {
		i := slices.IndexFunc(fields, func(f sdk.SchemaField) bool { return f.Name == e.Key })
		name := path + "." + e.Key
		row := Row{Name: name, Value: sdk.Redacted, Origin: p.file.origin(e.Value.Line, e.Value.Column)}
		if !hide && i >= 0 && !fields[i].Sensitive {
			if fields[i].Type == sdk.TypeObject && e.Value.Kind == yamltree.Map {
				rows = append(rows, p.showMap(name, e.Value, fields[i].Fields, false)...)
				continue
			}
			if !sensitiveElem(fields[i]) {
				row.Value = e.Value.Text
				if e.Value.Kind == yamltree.List || e.Value.Kind == yamltree.Map {
					row.Value = string(e.Value.JSON())
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func sensitiveElem(f sdk.SchemaField) bool {
	if f.Sensitive || f.Elem != nil && sensitiveElem(*f.Elem) {
		return true
	}
	return slices.ContainsFunc(f.Fields, sensitiveElem)
}

// String returns a short form for logs, without the provider's own config.
func (p Provider) String() string {
	return fmt.Sprintf("%s (%s, credentials %s, every %s)", p.Name, p.Kind, p.Credentials, p.PollInterval.Round(time.Millisecond))
}
