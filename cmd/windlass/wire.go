package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/credential"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/ledger/sqlite"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/registry"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// openStore opens the ledger of a state folder.
func openStore(ctx context.Context, dir string, a cli.Access) (ledger.Store, error) {
	if err := enoughFiles(); err != nil {
		return nil, err
	}
	s, err := sqlite.Open(ctx, dir, sqlite.Options{Reading: a != cli.ToWrite, Inspect: a == cli.ToInspect, Later: later})
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
func openLogs(stateDir string, c *config.Config, readOnly bool) (*joblog.Store, error) {
	return joblog.Open(filepath.Join(stateDir, "logs"), joblog.Options{MaxBytes: c.LogMaxBytes, Reading: readOnly})
}

// wiring is what the parts of one process share.
type wiring struct {
	// red knows every secret value that this process has had in its hands.
	red *secret.Redactor
	log *slog.Logger
	// host starts the plugins of this process.
	host *pluginhost.Host
}

// openSession opens all that works with runs.
func (w wiring) openSession(ctx context.Context, r cli.SessionRequest) (*cli.Session, error) {
	logs, err := openLogs(r.StateDir, r.Config, r.ReadOnly)
	if err != nil {
		return nil, err
	}
	plugins := w.plugins(r.Config)
	plugins.Patience = pluginPatience
	plugins.Waiting = func(name string, wait time.Duration) {
		r.Warn(sdk.ID{}, fmt.Sprintf("plugin %s has ended again and again; waiting %s until it is started again", name, wait.Round(100*time.Millisecond)))
	}
	if r.Config.Keeper && !r.ReadOnly && keptPlugins {
		if plugins.Source, err = newPluginSource(r); err != nil {
			return nil, err
		}
	}
	reg, err := w.registry(r.Config, r.Store, r.StateDir, plugins)
	if err != nil {
		return nil, err
	}
	prov := newProviders(reg, secret.Local(r.Config.Env().Lookup, r.Dir))
	engine, err := control.New(ctx, control.Options{Store: r.Store, Logs: logs, Providers: prov, Kind: "command", Version: r.Version,
		StateDir: r.StateDir, Owner: r.Config.Owner, Actor: r.Config.Actor, Log: w.log, Warn: r.Warn, Redact: w.red.Redact})
	if err != nil {
		return nil, errors.Join(err, reg.Close())
	}
	s := &cli.Session{ReadOnly: r.ReadOnly, Store: r.Store, Engine: engine, Workloads: engine.Workloads(), Providers: prov,
		Close: func(ctx context.Context) error { return errors.Join(engine.Close(ctx), reg.Close(), w.host.Close()) }}
	if r.ReadOnly {
		return s, nil
	}
	m := minder{engine: engine, find: func(ctx context.Context) error {
		_, err := engine.Recover(ctx, "")
		return err
	}}
	if r.Config.Keeper {
		k, err := newKeeperClient(r, engine)
		if err != nil {
			return nil, errors.Join(err, s.Close(ctx))
		}
		s.Keeper, m.find = k, k.Wake
	}
	s.Mind = m.mind
	return s, nil
}

// answers asks a provider whether its engine is there. It has no ledger, and its
// folder is one that goes again.
func (w wiring) answers(ctx context.Context, c *config.Config, provider string) bool {
	dir, err := os.MkdirTemp("", "windlass-ask-")
	if err != nil {
		return false
	}
	defer func() { _ = os.RemoveAll(dir) }()
	reg := registry.New(registry.Options{Config: c, Drivers: all.Drivers(), Credentials: credential.FromEnv(c.Env(), nil),
		Secrets: secret.NewResolver(secret.Elsewhere(), w.red), Log: w.log, Redactor: w.red, Owner: "none", LedgerID: "none", StateDir: dir})
	defer func() { _ = reg.Close() }()
	b, err := reg.Get(ctx, provider)
	if err != nil {
		return false
	}
	res, err := b.Check(ctx, sdk.CheckRequest{})
	return err == nil && len(res.Items) > 0 && res.Items[0].OK
}

// registry makes the registry of one configuration. Nothing is opened yet. No
// reference is resolved but for what a call's context brings: this process may
// drive the runs of others.
func (w wiring) registry(c *config.Config, store ledger.Store, stateDir string, plugins *pluginhost.Plugins) (*registry.Registry, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	owner := c.Owner
	if owner == "" {
		owner = store.ID()
	}
	return registry.New(registry.Options{Config: c, Drivers: all.Drivers(), Plugins: plugins, Credentials: credential.FromEnv(c.Env(), nil),
		Secrets: secret.NewResolver(secret.Elsewhere(), w.red), Log: w.log, Redactor: w.red, Owner: owner, LedgerID: store.ID(),
		StateDir: stateDir, Executable: self}), nil
}
