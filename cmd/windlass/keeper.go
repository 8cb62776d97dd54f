package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/keeper"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/secret"
	"github.com/windlass-run/windlass/sdk"
)

// keeperClient is the keeper as the command line uses it.
type keeperClient struct {
	client *keeper.Client
	engine *control.Engine
}

var _ cli.Keeper = keeperClient{}

func newKeeperClient(r cli.SessionRequest, engine *control.Engine) (keeperClient, error) {
	self, err := os.Executable()
	if err != nil {
		return keeperClient{}, fmt.Errorf("find this program: %w", err)
	}
	return keeperClient{engine: engine, client: newKeeper(r, self)}, nil
}

// newKeeper reaches the keeper with this command's surroundings.
func newKeeper(r cli.SessionRequest, self string) *keeper.Client {
	vars := r.Config.Env().Vars()
	origin := keeper.Origin{Dir: r.Dir, ConfigFile: r.ConfigFile, Env: make([][]byte, len(vars)), Stamp: stamp(r.Config.Files)}
	for i, v := range vars {
		origin.Env[i] = []byte(v)
	}
	return &keeper.Client{StateDir: r.StateDir, Version: r.Version, Origin: origin, Executable: self, Env: keeperEnv(vars, r.Config)}
}

// stamp tells versions of the configuration's files apart.
func stamp(files []string) string {
	h := sha256.New()
	for _, name := range files {
		b, err := os.ReadFile(name)
		_, _ = fmt.Fprintf(h, "%q %d %v\n", name, len(b), err)
		_, _ = h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// keptVars are the variables by which a keeper is told what the configuration of the
// command that started it says of the keeper's own work.
func keptVars() []string {
	return []string{"WINDLASS_OWNER", "WINDLASS_LOG_MAX_BYTES", "WINDLASS_RETENTION_LOGS", "WINDLASS_RETENTION_LOG_BYTES", "WINDLASS_RETENTION_LEDGER"}
}

// keeperEnv is the environment of a keeper's process. The submitter's own goes
// to it over the socket alone, so that no secret shows in the process table and
// none is taken for another run's.
func keeperEnv(vars []string, c *config.Config) []string {
	prefixes := []string{"WINDLASS_", "XDG_", "LC_", "GO", "SSL_CERT_"}
	names := []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "TMP", "TEMP", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
		"SYSTEMROOT", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "COMSPEC", "PATHEXT"}
	// Of the command's folder and provider the keeper knows nothing.
	leave := append([]string{"WINDLASS_CONFIG", "WINDLASS_DEFAULT_PROVIDER"}, keptVars()...)
	out := []string{"WINDLASS_LOG_MAX_BYTES=" + strconv.FormatInt(c.LogMaxBytes, 10), "WINDLASS_RETENTION_LOGS=" + config.FormatDuration(c.KeepLogs),
		"WINDLASS_RETENTION_LEDGER=" + config.FormatDuration(c.KeepRows)}
	if c.KeepSize > 0 {
		out = append(out, "WINDLASS_RETENTION_LOG_BYTES="+strconv.FormatInt(c.KeepSize, 10))
	}
	if c.Owner != "" {
		out = append(out, "WINDLASS_OWNER="+c.Owner)
	}
	for _, v := range vars {
		name, _, _ := strings.Cut(v, "=")
		upper := strings.ToUpper(name)
		if slices.Contains(leave, upper) {
			continue
		}
		if slices.Contains(names, upper) || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(upper, p) }) {
			out = append(out, v)
		}
	}
	return out
}

// Take hands a run over. When the keeper can't take it, this command drives it
// on; but one that was parked, and so isn't sent yet, is left to the next process
// that looks after runs: this one couldn't feed it its input.
func (k keeperClient) Take(ctx context.Context, run sdk.ID) error {
	row, err := k.engine.Wait(ctx, run, control.MilestoneMovable)
	if err != nil {
		return err
	}
	// The keeper knows the run's surroundings before it can take it up.
	if err := k.client.Offer(ctx, run); err != nil {
		return err
	}
	if err := k.engine.HandOver(ctx, run); err != nil {
		return err
	}
	if err := k.client.Take(ctx, run); err != nil {
		if row.Phase == ledger.PhaseIntent && row.Reason == "" {
			return err
		}
		return errors.Join(err, k.engine.Take(context.WithoutCancel(ctx), run))
	}
	return nil
}

// Wake starts a keeper if there is none, and hands it this command's
// surroundings.
func (k keeperClient) Wake(ctx context.Context) error { return k.client.Offer(ctx) }

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

// minder finds a holder for a run whose holder has died.
type minder struct {
	engine *control.Engine
	find   func(ctx context.Context) error
}

// mindEvery is the time between two looks at a run's holder. Two looks in a row
// must find none: one that is being handed over has none for a moment.
const mindEvery = 2 * time.Second

func (m minder) mind(ctx context.Context, run sdk.ID) {
	clock, seen := sdk.SystemClock(), 0
	for clock.Sleep(ctx, mindEvery) == nil {
		free, err := m.engine.Orphaned(ctx, run)
		if err != nil || !free {
			seen = 0
			continue
		}
		if seen++; seen > 1 && m.find(ctx) == nil {
			seen = 0
		}
	}
}

// keep is the keeper's life.
func keep(version string) int {
	red := &secret.Redactor{}
	logTo := func(h slog.Handler) *slog.Logger { return slog.New(red.Handler(h)) }
	log := logTo(slog.NewTextHandler(os.Stderr, nil))
	dir, err := os.Getwd()
	if err != nil {
		log.Error("keeper failed", "err", fmt.Errorf("find state folder: %w", err))
		return cli.ExitWindlass
	}
	if file, err := keeper.OpenLog(dir); err != nil {
		log.Warn("the log isn't bounded", "err", err)
	} else {
		defer func() { _ = file.Close() }()
		log = logTo(slog.NewTextHandler(file, nil))
	}
	if err := hideMemory(); err != nil {
		log.Warn("a crash may leave its memory in a file", "err", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		// What doesn't let go in time is left to the next keeper as by a kill.
		time.AfterFunc(2*keeper.LeaveTime, func() {
			log.Error("keeper gave up handing over")
			os.Exit(cli.ExitWindlass)
		})
	})()
	if err := serve(ctx, version, dir, newWiring(red, log)); err != nil {
		log.Error("keeper failed", "err", err)
		return cli.ExitWindlass
	}
	return cli.ExitOK
}

func serve(ctx context.Context, version, dir string, w wiring) (err error) {
	env := config.Environ()
	// The files are the commands' own: what concerns the keeper itself was put
	// into its environment.
	var own []string
	for _, name := range keptVars() {
		own = append(own, name+"="+env.Get(name))
	}
	c, err := config.Load(ctx, config.LoadRequest{Env: config.EnvOf(own)})
	if err != nil {
		return err
	}
	store, err := openStore(ctx, dir, cli.ToWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	logs, err := openLogs(dir, c, false)
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
		plugins := w.plugins(c)
		reg, err := w.registry(c, store, dir, plugins)
		if err != nil {
			return nil, err
		}
		return opened{reg, secret.Local(c.Env().Lookup, o.Dir), plugins}, nil
	}
	defer func() { err = errors.Join(err, w.host.Close()) }()
	home := keeper.Origin{}
	for _, v := range env.Vars() {
		home.Env = append(home.Env, []byte(v))
	}
	retention := control.Retention{Logs: c.KeepLogs, LogBytes: c.KeepSize, Ledger: c.KeepRows}
	return keeper.Serve(ctx, keeper.Options{StateDir: dir, Version: version, Actor: "keeper", Owner: c.Owner, Store: store, Logs: logs,
		Open: open, Home: &home, Retention: retention, Log: w.log, Redact: w.red.Redact})
}
