package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/registry"
	"github.com/windlass-run/windlass/internal/secret"
)

// openStore opens the ledger of a state folder.
func openStore(ctx context.Context, dir string, inspect bool) (ledger.Store, error) {
	s, err := sqlite.Open(ctx, dir, sqlite.Options{Inspect: inspect})
	if err != nil {
		return nil, err // not a typed nil
	}
	return s, nil
}

// hasStore reports whether a state folder has a ledger. What can't be looked
// at counts as one, so that opening it says why.
func hasStore(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "ledger.db"))
	return !errors.Is(err, fs.ErrNotExist)
}

// openLogs opens the store of captured output.
func openLogs(stateDir string, c *config.Config) (*joblog.Store, error) {
	return joblog.Open(filepath.Join(stateDir, "logs"), joblog.Options{MaxBytes: c.LogMaxBytes})
}

// openSession opens all that works with runs.
func openSession(ctx context.Context, r cli.SessionRequest) (*cli.Session, error) {
	logs, err := openLogs(r.StateDir, r.Config)
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	prov, err := openProviders(surroundings{config: r.Config, dir: r.Dir}, r.Store, r.StateDir, log)
	if err != nil {
		return nil, err
	}
	engine, err := control.New(ctx, control.Options{Store: r.Store, Logs: logs, Providers: prov, Kind: "command", Version: r.Version,
		StateDir: r.StateDir, Owner: r.Config.Owner, Actor: r.Config.Actor, Log: log, Warn: r.Warn})
	if err != nil {
		return nil, errors.Join(err, prov.Close())
	}
	s := &cli.Session{Store: r.Store, Engine: engine, Providers: prov,
		Close: func(ctx context.Context) error { return errors.Join(engine.Close(ctx), prov.Close()) }}
	if r.Config.Keeper {
		s.Keeper, err = newKeeperClient(r, engine)
	}
	return s, err
}

// surroundings are what providers are opened from: those of this command, or
// of one that handed its run over.
type surroundings struct {
	config *config.Config
	dir    string
}

// providers is a registry as the engine uses it.
type providers struct{ *registry.Registry }

var _ control.Providers = providers{}

// openProviders makes the registry of one configuration. Nothing is opened yet.
func openProviders(s surroundings, store ledger.Store, stateDir string, log *slog.Logger) (providers, error) {
	self, err := os.Executable()
	if err != nil {
		return providers{}, fmt.Errorf("find this program: %w", err)
	}
	env := s.config.Env()
	owner := s.config.Owner
	if owner == "" {
		owner = store.ID()
	}
	return providers{registry.New(registry.Options{Config: s.config, Drivers: all.Drivers(), Credentials: credential.FromEnv(env, nil),
		Secrets: secret.NewResolver(secret.Local(env.Lookup, s.dir), nil), Log: log, Owner: owner, LedgerID: store.ID(),
		StateDir: stateDir, Executable: self})}, nil
}

// Backend opens a provider by its name.
func (p providers) Backend(ctx context.Context, name string) (control.Backend, error) {
	b, err := p.Get(ctx, name)
	if err != nil {
		return control.Backend{}, err
	}
	return control.Backend{Provider: b.Provider, Name: b.Name, Driver: b.Driver, PollInterval: b.PollInterval, CallTimeout: b.CallTimeout,
		MaxInFlight: b.MaxInFlight, SubmitRate: b.SubmitRate}, nil
}

// BackendFor opens the provider of a run: that of its name, which must have its
// identity.
func (p providers) BackendFor(ctx context.Context, run ledger.Run) (control.Backend, error) {
	b, err := p.Backend(ctx, run.Provider)
	if err != nil {
		return b, err
	}
	if err := b.Info().Identity.Check("open provider "+run.Provider, run.Identity); err != nil {
		return control.Backend{}, err
	}
	return b, nil
}
