// Package credential finds the credentials of providers.
//
// By default (credentials: env) only variables are taken, and only those in
// the row of the provider's kind in one table, [Table]. With ambient the
// vendor's own chain may be used as well: profiles, metadata services, files
// in the home folder. With pocket nothing of the user's is taken: made-up
// values go to an endpoint on this machine.
//
// Values are secret: nothing here prints them, and no error holds one.
package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/sdk"
)

// The stable names of this package's errors, which `windlass explain` knows.
const (
	ErrMissing     = "credential.missing"
	ErrNotLoopback = "credential.not-loopback"
	ErrNoPocket    = "credential.no-pocket"
)

// Explanations returns a row for every error name of this package.
func Explanations() []config.Explanation {
	return []config.Explanation{
		{ID: ErrMissing, What: "A provider's credentials aren't there.",
			Why: "By default they come from variables alone; the message names those that would supply them.",
			Do:  "Set them. Or write credentials: ambient in the provider's entry: the vendor's own chain is then used too, which is profiles, metadata services and files in the home folder."},
		{ID: ErrNotLoopback, What: "Made-up credentials would leave this machine.",
			Why: "A provider has credentials: pocket, which is for pocket clouds on this machine, and its endpoint is another machine's, or none is set.",
			Do:  "Set an endpoint on 127.0.0.1, which windlass pocket up prints, or use env or ambient for the cloud itself."},
		{ID: ErrNoPocket, What: "No pocket cloud speaks for this kind.",
			Why: "A provider has credentials: pocket, and its kind has no pocket cloud that takes made-up ones.",
			Do:  "Use env or ambient."},
	}
}

// CredentialResolver finds the credentials of a provider.
type CredentialResolver interface {
	// ResolveCredentials returns Unauthenticated, naming the variables that
	// would help, when there are none, and FailedPrecondition when the mode
	// forbids what the provider asks.
	ResolveCredentials(ctx context.Context, r ResolveRequest) (Credentials, error)
}

// ResolveRequest says whose credentials are wanted.
type ResolveRequest struct {
	// Provider is the configured name, Kind its kind.
	Provider, Kind string
	Mode           config.CredentialMode
	// Config is the provider's own config, in which pocket looks for
	// endpoints.
	Config json.RawMessage
}

// Credentials are a provider's credentials. Printing and encoding them shows
// the names alone.
type Credentials struct {
	values  map[string]sdk.SecretValue
	ambient bool
}

// New returns credentials of values by name.
func New(values map[string]string, ambient bool) Credentials {
	c := Credentials{values: make(map[string]sdk.SecretValue, len(values)), ambient: ambient}
	for k, v := range values {
		c.values[k] = sdk.NewSecretValue([]byte(v))
	}
	return c
}

// Ambient reports whether the vendor's own chain may be used.
func (c Credentials) Ambient() bool { return c.ambient }

// Names returns the names that have a value, sorted.
func (c Credentials) Names() []string { return slices.Sorted(maps.Keys(c.values)) }

// Reveal returns the values by name, for sdk.OpenRequest alone.
func (c Credentials) Reveal() map[string]string {
	out := make(map[string]string, len(c.values))
	for k, v := range c.values {
		out[k] = string(v.Reveal())
	}
	return out
}

// Secrets returns the values that hide, for a redactor. Names of places, such
// as a host or a region, are not among them.
func (c Credentials) Secrets() []sdk.SecretValue {
	var out []sdk.SecretValue
	for _, k := range c.Names() {
		if sensitive(k) {
			out = append(out, c.values[k])
		}
	}
	return out
}

// sensitive reports whether a variable's value is a secret rather than a place.
func sensitive(name string) bool {
	return slices.ContainsFunc([]string{"SECRET", "TOKEN", "PASSWORD", "ACCESS_KEY"}, func(s string) bool { return strings.Contains(name, s) }) &&
		!strings.HasSuffix(name, "_FILE")
}

// String returns the names.
func (c Credentials) String() string {
	s := strings.Join(c.Names(), " ")
	if c.ambient {
		s = strings.TrimSpace(s + " and the vendor's own chain")
	}
	if s == "" {
		return "none"
	}
	return s
}

// GoString returns the names.
func (c Credentials) GoString() string { return "credential.Credentials{" + c.String() + "}" }

// Format prints the names, whatever the verb.
func (c Credentials) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, c.GoString()) }

// MarshalJSON gives the names; Encode gives the values.
func (c Credentials) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }
