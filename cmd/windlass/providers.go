package main

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/registry"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// providers is a registry as a command's engine uses it. The runs that the
// command submits resolve their secrets here, others never do: under the same
// reference they mean another value.
type providers struct {
	*registry.Registry
	local map[string]secret.Scheme

	mu  sync.Mutex
	own map[sdk.ID]bool
}

var _ control.Providers = (*providers)(nil)

func newProviders(r *registry.Registry, local map[string]secret.Scheme) *providers {
	return &providers{Registry: r, local: local, own: map[sdk.ID]bool{}}
}

// Backend opens a provider by its name, for runs of this command.
func (p *providers) Backend(ctx context.Context, name string) (control.Backend, error) {
	b, err := p.Get(ctx, name)
	if err != nil {
		return control.Backend{}, err
	}
	return backend(b, func(run sdk.ID) map[string]secret.Scheme {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.own[run] = true
		return p.local
	}), nil
}

// BackendFor opens the provider of a run that is in the ledger: the one that
// has its identity.
func (p *providers) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	b, err := p.Find(ctx, run.Provider, run.Identity)
	if err != nil {
		return control.Backend{}, err
	}
	out := backend(b, func(run sdk.ID) map[string]secret.Scheme {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.own[run] {
			return p.local
		}
		return nil
	})
	out.Name = run.Provider
	return out, nil
}

// backend is an opened provider as the engine knows it, whose launches resolve
// secrets by the schemes of their run.
func backend(b registry.Backend, schemes func(run sdk.ID) map[string]secret.Scheme) control.Backend {
	return control.Backend{Provider: secret.Bind(b.Provider, schemes), Name: b.Name, Driver: b.Driver, PollInterval: b.PollInterval,
		CallTimeout: b.CallTimeout, MaxInFlight: b.MaxInFlight, SubmitRate: b.SubmitRate}
}

// opened is the registry of one command's surroundings, in the keeper, which
// binds secrets itself.
type opened struct {
	*registry.Registry
	schemes map[string]secret.Scheme
	plugins *pluginhost.Plugins
}

// Plugin hosts a plugin for a command.
func (o opened) Plugin(ctx context.Context, name string, told json.RawMessage) (*pluginhost.Lease, error) {
	req, err := o.plugins.Request(name, told)
	if err != nil {
		return nil, err
	}
	return o.plugins.Source.Process(ctx, req)
}

// Outdated lists the plugins whose programs have changed since they were asked for.
func (o opened) Outdated() []string { return o.plugins.Outdated() }

func (o opened) Schemes() map[string]secret.Scheme { return o.schemes }

func (o opened) Backend(ctx context.Context, name string) (control.Backend, error) {
	b, err := o.Get(ctx, name)
	return plain(b), err
}

func (o opened) Find(ctx context.Context, name string, id sdk.Identity) (control.Backend, error) {
	b, err := o.Registry.Find(ctx, name, id)
	return plain(b), err
}

func plain(b registry.Backend) control.Backend {
	return control.Backend{Provider: b.Provider, Name: b.Name, Driver: b.Driver, PollInterval: b.PollInterval,
		CallTimeout: b.CallTimeout, MaxInFlight: b.MaxInFlight, SubmitRate: b.SubmitRate}
}
