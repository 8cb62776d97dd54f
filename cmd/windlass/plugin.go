package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/keeper"
	"github.com/windlass-run/windlass/internal/pluginhost"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// keptPlugins: the keeper hosts plugins for commands. On Windows only the process that
// has started a plugin can speak to it, so each hosts its own.
const keptPlugins = runtime.GOOS != "windows"

// pluginPatience is how long a command waits for a plugin that has ended again and again,
// and is soon started again, in place of failing.
const pluginPatience = 10 * time.Second

func newWiring(red *secret.Redactor, log *slog.Logger) wiring {
	return wiring{red: red, log: log, host: pluginhost.New(pluginhost.Options{Log: log, Redact: red.Redact, Know: red.Know})}
}

// plugins are the plugins of a configuration, started by this process.
func (w wiring) plugins(c *config.Config) *pluginhost.Plugins {
	return &pluginhost.Plugins{Source: w.host, Config: c, IDs: sdk.NewIDSource(sdk.SystemClock())}
}

// pluginSource has the keeper start plugins, so that all commands share a process with
// it and none waits for another.
type pluginSource struct{ client *keeper.Client }

var _ pluginhost.Source = pluginSource{}

func newPluginSource(r cli.SessionRequest) (pluginhost.Source, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return pluginSource{newKeeper(r, self)}, nil
}

// Process implements pluginhost.Source. The keeper reads the same configuration, and
// starts the plugin that this command would.
func (s pluginSource) Process(ctx context.Context, r pluginhost.Request) (*pluginhost.Lease, error) {
	return s.client.Plugin(ctx, r.Plugin.Name, r.Told)
}
