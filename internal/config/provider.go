package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/yamltree"
	"github.com/windlass-run/windlass/sdk"
)

// CredentialMode says where a provider's credentials may come from.
type CredentialMode string

// CredentialsEnv takes variables only. CredentialsAmbient also allows the
// vendor's own chain. CredentialsPocket sends made-up ones, and only to an
// endpoint on this machine.
const (
	CredentialsEnv     CredentialMode = "env"
	CredentialsAmbient CredentialMode = "ambient"
	CredentialsPocket  CredentialMode = "pocket"
)

func credentialModes() []string {
	return []string{string(CredentialsEnv), string(CredentialsAmbient), string(CredentialsPocket)}
}

// Provider is a configured provider. It can be carried to another process as
// JSON; it holds no credentials.
type Provider struct {
	Name        string         `json:"name"`
	Kind        string         `json:"kind"`
	Credentials CredentialMode `json:"credentials"`
	// PollInterval and CallTimeout are in nanoseconds in JSON.
	PollInterval time.Duration `json:"poll_interval"`
	CallTimeout  time.Duration `json:"call_timeout"`
	// MaxInFlight of 0 is no bound, as is SubmitRate, in submissions a second.
	MaxInFlight int     `json:"max_in_flight,omitzero"`
	SubmitRate  float64 `json:"submit_rate,omitzero"`
	// Config is the kind's own part as raw JSON; nil is empty.
	Config json.RawMessage `json:"config,omitzero"`
	// Origin is where the entry stands; the default for local and docker
	// without one.
	Origin Origin `json:"origin,omitzero"`

	file *file
	at   *yamltree.Node
	// plugins are the names of this configuration's plugins.
	plugins []string
}

// builtin are the providers that are there without an entry, and the kinds
// that an entry of that name has when it names none.
func builtin() []string { return []string{"local", "docker"} }

const maxName = 63

// checkName returns what is wrong with the name of a provider, or nothing.
func checkName(s string) string {
	if s == "" || len(s) > maxName {
		return fmt.Sprintf("a name has 1 to %d characters", maxName)
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || i > 0 && strings.IndexByte("-_.", c) >= 0
		if !ok {
			return "a name has letters, digits, dots, dashes and underscores, and starts with a letter or digit"
		}
	}
	return ""
}

// Provider returns the provider of that name; NotFound lists those that there
// are.
func (c *Config) Provider(name string) (Provider, error) {
	if p, ok := c.providers[name]; ok {
		return p, nil
	}
	p := c.noProvider(name, Origin{})
	return Provider{}, &sdk.Error{Code: sdk.NotFound, Op: "find provider", ID: p.ID, Remedy: p.Remedy, Err: &Invalid{Problems: []Problem{p}}}
}

func (c *Config) noProvider(name string, from Origin) Problem {
	names := c.ProviderNames()
	return Problem{ID: ErrUnknownProvider, Origin: from, Message: fmt.Sprintf("no provider is called %q", name) + meant(name, names),
		Remedy: "there are " + strings.Join(names, ", ") + "; others are added under providers: in windlass.yaml"}
}

// ProviderNames returns the names of all providers, sorted.
func (c *Config) ProviderNames() []string {
	out := make([]string, 0, len(c.providers))
	for k := range c.providers {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Validate checks every provider under its driver's schema and returns all
// problems at once, with their places. What the kinds of plugins take is seen when
// they are started. A plugin that has the name of a driver's kind is a problem.
func (c *Config) Validate(drivers []sdk.Driver) error {
	return invalid("read config", c.problems(drivers))
}

func (c *Config) problems(drivers []sdk.Driver) []Problem {
	var ps []Problem
	for _, name := range c.ProviderNames() {
		ps = append(ps, c.providers[name].problems(drivers)...)
	}
	for _, name := range c.PluginNames() {
		ps = append(ps, c.plugins[name].problems(drivers)...)
	}
	return ps
}

// Join is the one error of several of this package, with all their problems; any other
// error among them comes first, and alone.
func Join(errs ...error) error {
	var ps []Problem
	for _, err := range errs {
		found := ProblemsOf(err)
		if err != nil && len(found) == 0 {
			return err
		}
		ps = append(ps, found...)
	}
	return invalid("read config", ps)
}

// Validate checks the provider's kind and config under its driver's schema.
func (p Provider) Validate(drivers []sdk.Driver) error {
	return invalid("read config", p.problems(drivers))
}

func (p Provider) problems(drivers []sdk.Driver) []Problem {
	i := slices.IndexFunc(drivers, func(d sdk.Driver) bool { return d.Kind == p.Kind })
	switch {
	case i < 0 && slices.Contains(p.plugins, p.Kind):
		return nil
	case i < 0:
		return []Problem{p.noKind(drivers)}
	}
	remedy := "`windlass config schema` has what the kind " + p.Kind + " takes"
	if slices.Contains(p.plugins, p.Kind) {
		remedy = "`windlass provider describe " + p.Name + "` shows what the plugin " + p.Kind + " takes"
	}
	return configProblems(drivers[i].Config, p.Config, "providers."+p.Name, p.placing(), remedy)
}

// configProblems is what a schema finds wrong with the config of an entry called name.
func configProblems(s sdk.Schema, config json.RawMessage, name string, at placing, remedy string) []Problem {
	var out []Problem
	for _, sp := range s.Validate("", config) {
		key := name + ".config"
		if sp.Field != "" {
			key += "." + sp.Field
		}
		// A bracket follows its list without a dot.
		key = strings.ReplaceAll(key, ".[", "[")
		msg := sp.Message
		switch {
		case sp.Value == "":
		case strings.HasPrefix(msg, "wants "):
			what, more, _ := strings.Cut(msg, ";")
			msg = what + ", has nothing"
			if sp.Value != "null" {
				msg = what + ", has " + sp.Value
			}
			if more != "" {
				msg += ";" + more
			}
		default:
			msg = sp.Value + " " + msg
		}
		out = append(out, Problem{ID: ErrProviderConfig, Origin: at.place(sp.Field, sp.Value != ""), Key: key, Message: msg,
			Remedy: remedy})
	}
	return out
}

func (p Provider) noKind(drivers []sdk.Driver) Problem {
	kinds := slices.Clone(p.plugins)
	for _, d := range drivers {
		kinds = append(kinds, d.Kind)
	}
	slices.Sort(kinds)
	from := p.Origin
	if p.at != nil {
		if f := p.at.Get("kind"); f != nil {
			from = p.file.origin(f.Value.Line, f.Value.Column)
		}
	}
	return Problem{ID: ErrUnknownKind, Origin: from, Key: "providers." + p.Name + ".kind",
		Message: fmt.Sprintf("no kind is called %q", p.Kind) + meant(p.Kind, kinds), Remedy: "the kinds are " + strings.Join(kinds, ", ")}
}

// Where returns where a member of the provider's config stands, such as
// "config.region"; what isn't there is nearest to what is.
func (p Provider) Where(field string) Origin {
	return p.place(strings.TrimPrefix(strings.TrimPrefix(field, "config"), "."), false)
}

func (p Provider) place(path string, value bool) Origin { return p.placing().place(path, value) }

func (p Provider) placing() placing { return placing{p.Origin, p.file, p.at} }

// placing is where an entry stands; without a node that is all that is known.
type placing struct {
	origin Origin
	file   *file
	at     *yamltree.Node
}

// place returns where a path below config: stands, or the nearest thing above
// it that does: its value if wanted and a scalar, else its key.
func (p placing) place(path string, value bool) Origin {
	if p.at == nil {
		return p.origin
	}
	f := p.at.Get("config")
	if f == nil {
		return p.origin
	}
	return p.file.origin(f.Place(path, value))
}
