// Command windlass runs one-off jobs on the runtimes that a team has, through
// one contract, one command line and one audit ledger.
//
// It is also, under hidden first arguments, the supervisor of a local job and
// the keeper of a state directory.
package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/windlass-run/windlass/internal/cli"
	"github.com/windlass-run/windlass/internal/driver/all"
	"github.com/windlass-run/windlass/internal/driver/local"
	"github.com/windlass-run/windlass/internal/keeper"
	"github.com/windlass-run/windlass/internal/secret"
)

// version is set by the build.
var version string

// later is one more migration of the ledger, which only tests of upgrades set.
var later string

func main() { os.Exit(run(os.Args[1:])) }

// run is main with its arguments, so that tests can be the program.
func run(args []string) int {
	// A supervisor is on the path of every local job, so it comes first.
	if handled, code := local.Supervise(args); handled {
		return code
	}
	if len(args) > 0 && args[0] == keeper.Verb {
		return keep(build().Version)
	}
	f := cli.NewFactory(build())
	f.Drivers = all.Drivers
	w := newWiring(&secret.Redactor{}, slog.New(slog.DiscardHandler))
	f.Streams.Redact = w.red.Redact
	f.OpenStore, f.HasStore, f.OpenSession = openStore, hasStore, w.openSession
	f.Answers = w.answers
	f.StartPocket = startPocket
	f.Kill = w.host.Kill
	return cli.Main(f, args)
}

// build says which program this is: what the build set, else what the Go
// toolchain recorded.
func build() cli.Build {
	b := cli.Build{Version: version}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	if b.Version == "" {
		if b.Version = info.Main.Version; b.Version == "" || b.Version == "(devel)" {
			b.Version = "v0.0.0-dev"
		}
	}
	return b
}
