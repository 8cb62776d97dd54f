package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/keeper"
	"github.com/windlass-run/windlass/sdk"
)

// keeperClient is the keeper as the command line uses it.
type keeperClient struct {
	client *keeper.Client
	engine *control.Engine
}

var _ cli.Keeper = keeperClient{}

func newKeeperClient(r cli.SessionRequest, engine *control.Engine) (cli.Keeper, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	vars := r.Config.Env().Vars()
	origin := keeper.Origin{Dir: r.Dir, ConfigFile: r.ConfigFile, Env: make([][]byte, len(vars))}
	for i, v := range vars {
		origin.Env[i] = []byte(v)
	}
	return keeperClient{engine: engine, client: &keeper.Client{StateDir: r.StateDir, Version: r.Version, Origin: origin, Executable: self, Env: vars}}, nil
}

// Take hands a run over. When the keeper can't take it, this command drives it
// on.
func (k keeperClient) Take(ctx context.Context, run sdk.ID) error {
	if _, err := k.engine.Wait(ctx, run, control.MilestoneMovable); err != nil {
		return err
	}
	if err := k.client.Ensure(ctx); err != nil {
		return err
	}
	if err := k.engine.HandOver(ctx, run); err != nil {
		return err
	}
	if err := k.client.Take(ctx, run); err != nil {
		return errors.Join(err, k.engine.Take(context.WithoutCancel(ctx), run))
	}
	return nil
}

// Wake starts a keeper if there is none, and hands it this command's
// surroundings.
func (k keeperClient) Wake(ctx context.Context) error { return k.client.Ensure(ctx) }

// State describes the keeper in one line.
func (k keeperClient) State(ctx context.Context) (string, bool) {
	st, err := k.client.Status(ctx)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound:
		return "none runs; one starts when it is needed", true
	case err != nil:
		return err.Error(), false
	}
	return fmt.Sprintf("runs as process %d, version %s, and drives %d", st.PID, st.Version, len(st.Held)), true
}

// keep is the keeper's life.
func keep(version string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := serve(ctx, version, log); err != nil {
		log.Error("keeper failed", "err", err)
		return cli.ExitWindlass
	}
	return cli.ExitOK
}

func serve(ctx context.Context, version string, log *slog.Logger) (err error) {
	env := config.Environ()
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find state folder: %w", err)
	}
	c, err := config.Load(ctx, config.LoadRequest{Env: env})
	if err != nil {
		return err
	}
	store, err := openStore(ctx, dir, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	logs, err := openLogs(dir, c)
	if err != nil {
		return err
	}
	open := func(ctx context.Context, o keeper.Origin) (keeper.Opened, error) {
		vars := make([]string, len(o.Env))
		for i, v := range o.Env {
			vars[i] = string(v)
		}
		c, err := config.Load(ctx, config.LoadRequest{Env: config.EnvOf(vars), Dir: o.Dir, ExplicitFile: o.ConfigFile, Flags: o.Flags})
		if err != nil {
			return nil, err
		}
		return openProviders(surroundings{config: c, dir: o.Dir}, store, dir, log)
	}
	home := keeper.Origin{Dir: dir}
	for _, v := range env.Vars() {
		home.Env = append(home.Env, []byte(v))
	}
	return keeper.Serve(ctx, keeper.Options{StateDir: dir, Version: version, Actor: "keeper", Owner: c.Owner, Store: store, Logs: logs,
		Open: open, Home: home, Log: log})
}
