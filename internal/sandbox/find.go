package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// Provider is a configured provider, as far as an environment goes by it.
type Provider struct {
	// Name is the configured name, Kind its kind.
	Name, Kind string
	// NoImage: its jobs are programs of this machine, not images.
	NoImage bool
	// Combined: its jobs' stdout and stderr come as one.
	Combined bool
	// Support is its driver's, under JobSpec's names.
	Support []sdk.FieldSupport
}

// Places are all environments that there are here.
type Places struct {
	// Providers are those that are configured, sorted by name.
	Providers []Provider
	// Jobs runs what goes through the engine.
	Jobs *Jobs
	// Runners are the names of the remote runners, sorted.
	Runners []string
	// Dial makes the environment of a remote runner. It reaches no network: the
	// first Exec does. It isn't called for a name that is none of Runners.
	Dial func(ctx context.Context, name string) (Environment, error)
}

// Choice is what a step says about where it runs; all of it may be empty.
type Choice struct {
	// ExecEnv is one of Reserved, or the name of a remote runner; empty is
	// LocalDocker.
	ExecEnv string
	// Provider is for ProviderEphemeral, ArgoModule for Ephemeral; each is
	// refused elsewhere.
	Provider, ArgoModule string
}

// ThroughEngine reports whether the choice is an environment whose executions
// are runs in the ledger, and not a remote runner.
func (c Choice) ThroughEngine() bool {
	return c.ExecEnv == "" || slices.Contains(Reserved(), c.ExecEnv)
}

// Fitted returns the choice without what has no meaning in its environment, and an
// *sdk.Error for each such value.
func (c Choice) Fitted() (Choice, []error) {
	name := c.ExecEnv
	if name == "" {
		name = LocalDocker
	}
	var misplaced []error
	for _, x := range []struct {
		field, env string
		value      *string
	}{{"provider", ProviderEphemeral, &c.Provider}, {"argo_module", Ephemeral, &c.ArgoModule}} {
		if *x.value != "" && name != x.env {
			misplaced = append(misplaced, &sdk.Error{Code: sdk.InvalidArgument, Op: "find environment", Field: x.field, ID: ErrRefused,
				Err: fmt.Errorf("%q has no meaning with exec_env %s", *x.value, name), Remedy: "leave it out, or set exec_env: " + x.env})
			*x.value = ""
		}
	}
	return c, misplaced
}

// What an error of a choice is called.
const (
	// ErrNoEnvironment: no environment has that name.
	ErrNoEnvironment = "step.no-environment"
	// ErrNoPlace: the environment is there, but not the provider that it needs.
	ErrNoPlace = "step.no-provider"
)

// kindDocker and kindArgo are the kinds that two environments run on.
const (
	kindDocker = "docker"
	kindArgo   = "argo"
	// dockerName is the provider that is there without configuration.
	dockerName = "docker"
	// ephemeralTTL is how long Argo keeps an ended Workflow that nobody has
	// cleaned up: our clean-up is done long before.
	ephemeralTTL = 300 * time.Second
)

// Find returns the environment of a choice. An error names the field of the
// step that is wrong, and the candidates.
func (p Places) Find(ctx context.Context, c Choice) (Environment, error) {
	name := c.ExecEnv
	if name == "" {
		name = LocalDocker
	}
	if _, misplaced := c.Fitted(); len(misplaced) > 0 {
		return nil, misplaced[0]
	}
	switch name {
	case LocalDocker:
		return p.localDocker()
	case Ephemeral:
		return p.ephemeral(c.ArgoModule)
	case ProviderEphemeral:
		return p.providerEphemeral(c.Provider)
	}
	if !slices.Contains(p.Runners, name) {
		all := append(Reserved(), p.Runners...)
		return nil, &sdk.Error{Code: sdk.NotFound, Op: "find environment", Field: "exec_env", ID: ErrNoEnvironment,
			Err:    fmt.Errorf("no environment is called %q%s", name, meant(name, all)),
			Remedy: "there are " + strings.Join(all, ", ") + "; remote runners are added under runners: in windlass.yaml"}
	}
	return p.Dial(ctx, name)
}

func (p Places) localDocker() (Environment, error) {
	i := slices.IndexFunc(p.Providers, func(x Provider) bool { return x.Name == dockerName })
	switch {
	case i < 0:
		return nil, noPlace("exec_env", "no provider is called docker", "it is there without configuration in a build that has the kind")
	case p.Providers[i].Kind != kindDocker:
		return nil, noPlace("exec_env", fmt.Sprintf("the provider called docker is of kind %s", p.Providers[i].Kind),
			"give that provider another name in windlass.yaml, or run on it by exec_env: "+ProviderEphemeral+" and provider: docker")
	}
	return &jobs{Jobs: p.Jobs, name: LocalDocker, provider: p.Providers[i], standing: sdk.ProfileStrict}, nil
}

// ephemeral finds a provider of kind argo: the one that is named, or the only
// one that there is.
func (p Places) ephemeral(module string) (Environment, error) {
	var argo []string
	for _, x := range p.Providers {
		if x.Kind == kindArgo {
			argo = append(argo, x.Name)
		}
	}
	have := "no provider is of kind argo; add one under providers: in windlass.yaml"
	if len(argo) > 0 {
		have = "of kind argo are " + strings.Join(argo, ", ")
	}
	name := module
	switch {
	case module != "":
	case len(argo) == 1:
		name = argo[0]
	case len(argo) == 0:
		return nil, noPlace("exec_env", "ephemeral runs on a provider of kind argo, and none is configured", "add one under providers: in windlass.yaml")
	default:
		return nil, noPlace("argo_module", fmt.Sprintf("is needed, since %d providers are of kind argo", len(argo)), "name one of "+strings.Join(argo, ", "))
	}
	i := slices.IndexFunc(p.Providers, func(x Provider) bool { return x.Name == name })
	switch {
	case i < 0:
		return nil, noPlace("argo_module", fmt.Sprintf("no provider is called %q%s", name, meant(name, argo)), have)
	case p.Providers[i].Kind != kindArgo:
		return nil, noPlace("argo_module", fmt.Sprintf("provider %s is of kind %s, not argo", name, p.Providers[i].Kind), have)
	}
	return &jobs{Jobs: p.Jobs, name: Ephemeral, provider: p.Providers[i], ttl: ephemeralTTL}, nil
}

func (p Places) providerEphemeral(name string) (Environment, error) {
	names := make([]string, 0, len(p.Providers))
	for _, x := range p.Providers {
		names = append(names, x.Name)
	}
	if name == "" {
		return nil, noPlace("provider", "is needed with exec_env "+ProviderEphemeral, "name one of "+strings.Join(names, ", "))
	}
	i := slices.Index(names, name)
	if i < 0 {
		return nil, noPlace("provider", fmt.Sprintf("no provider is called %q%s", name, meant(name, names)), "there are "+strings.Join(names, ", "))
	}
	return &jobs{Jobs: p.Jobs, name: ProviderEphemeral, provider: p.Providers[i]}, nil
}

func noPlace(field, what, remedy string) error {
	return &sdk.Error{Code: sdk.NotFound, Op: "find environment", Field: field, ID: ErrNoPlace, Err: fmt.Errorf("%s", what), Remedy: remedy}
}

// meant is what a mistyped word was most likely meant to be, to be appended.
func meant(word string, candidates []string) string {
	if near := sdk.Nearest(word, candidates); near != "" {
		return fmt.Sprintf(" (did you mean %q?)", near)
	}
	return ""
}
