package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type doctorOptions struct {
	f    *Factory
	json bool
}

func newDoctor(f *Factory, runF func(context.Context, *doctorOptions) error) *cobra.Command {
	o := &doctorOptions{f: f}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, and say how to mend what is wrong",
		Long: `Check what Windlass needs here: the configuration, the state folder, the ledger,
the keeper, and every provider. Each failure comes with what to do. The exit code
is 1 when something that is needed fails; a docker engine that nothing configures
isn't.`,
		Example: "  windlass doctor",
		Args:    exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// doctorTime bounds the check of one provider.
const doctorTime = 10 * time.Second

func (o *doctorOptions) run(ctx context.Context) error {
	checks := o.checks(ctx)
	return printChecks(o.f.Streams, checks, o.json)
}

func (o *doctorOptions) checks(ctx context.Context) []CheckView {
	var out []CheckView
	ok := func(subject, name, format string, args ...any) {
		out = append(out, CheckView{Subject: subject, Name: name, OK: true, Needed: true, Detail: fmt.Sprintf(format, args...)})
	}
	bad := func(subject, name string, err error) {
		b := o.f.Streams.describe(err)
		// The line begins with these words.
		b.Message = strings.TrimPrefix(b.Message, name+" "+subject+": ")
		if len(b.Problems) == 0 {
			out = append(out, CheckView{Subject: subject, Name: name, Needed: true, Detail: b.Message, Remedy: b.Remedy})
		}
		for _, p := range b.Problems {
			out = append(out, CheckView{Subject: subject, Name: name, Needed: true, Detail: p.String()})
		}
	}
	c, err := o.f.cfg()
	if err != nil {
		bad("config", "read", err)
		return out
	}
	if err := c.Validate(o.f.Drivers()); err != nil {
		bad("config", "providers", err)
	} else if len(c.Files) == 0 {
		ok("config", "read", "no file, the defaults are in force")
	} else {
		ok("config", "read", "%s", c.Files[0])
	}
	for _, w := range c.Warnings {
		out = append(out, CheckView{Subject: "config", Name: "warning", Detail: w})
	}
	if v, set := o.network(c.Env()); set {
		out = append(out, v)
	}
	dir, err := c.StateDir()
	if err != nil {
		bad("state", "folder", err)
		return out
	}
	if err := writable(dir); err != nil {
		bad("state", "folder", &sdk.Error{Code: sdk.FailedPrecondition, Op: "write to " + dir, Err: err,
			Remedy: "make it writable, or name another by WINDLASS_STATE"})
		return out
	}
	ok("state", "folder", "%s", dir)
	store, err := o.f.openStore(ctx, c, ToWrite)
	if err != nil {
		bad("ledger", "open", err)
		return out
	}
	o.f.keep(store)
	if head, err := store.Head(ctx); err != nil {
		bad("ledger", "read", err)
	} else {
		ok("ledger", "open", "%s, %s; windlass ledger verify checks each", head.LedgerID, count(int(head.Count), "event", "events"))
	}
	out = append(out, o.holders(ctx, store)...)
	out = append(out, o.retention(c, dir))
	s, err := o.f.open(ctx)
	if err != nil {
		bad("engine", "open", err)
		return out
	}
	out = append(out, o.changes(ctx, s)...)
	out = append(out, o.keeper(ctx, c, s))
	for _, name := range c.ProviderNames() {
		out = append(out, o.provider(ctx, c, s, name)...)
	}
	return out
}

// writable proves that files can be made in a folder.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString("windlass\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// holders looks for open runs that nobody drives.
func (o *doctorOptions) holders(ctx context.Context, store ledger.Store) []CheckView {
	open, idle := 0, 0
	var first string
	for r, err := range store.Runs(ctx, ledger.RunFilter{Open: true, Action: "run"}) {
		if err != nil {
			return []CheckView{{Subject: "runs", Name: "list", Needed: true, Detail: err.Error()}}
		}
		open++
		if r.Holder.IsZero() {
			idle++
			first = r.ID.Short()
		}
	}
	if idle > 0 {
		return []CheckView{{Subject: "runs", Name: "without a process", Detail: fmt.Sprintf("%d of %d open runs", idle, open),
			Remedy: "windlass wait " + first + " takes them up"}}
	}
	return []CheckView{{Subject: "runs", Name: "open", OK: true, Needed: true, Detail: fmt.Sprint(open)}}
}

// changes looks at what became of changes whose commands were killed, and closes their
// rows by that.
func (o *doctorOptions) changes(ctx context.Context, s *Session) []CheckView {
	const subject, name = "changes", "left by killed commands"
	if s.ReadOnly {
		return nil
	}
	settled, err := s.Engine.SettleActions(ctx)
	if err != nil {
		return []CheckView{{Subject: subject, Name: name, Needed: true, Detail: err.Error()}}
	}
	var out []CheckView
	for _, x := range settled {
		v := CheckView{Subject: subject, Name: name, OK: x.Err == nil, Detail: settledWords(x)}
		out = append(out, v)
	}
	return out
}

func (o *doctorOptions) keeper(ctx context.Context, c *config.Config, s *Session) CheckView {
	v := CheckView{Subject: "keeper", Name: "state", OK: true}
	if !c.Keeper || s.Keeper == nil {
		v.Detail = "off: commands do everything themselves, and run -d is refused"
		return v
	}
	v.Detail, v.OK = s.Keeper.State(ctx)
	v.Needed = true
	if !v.OK {
		v.Remedy = "see " + filepath.Join("the state folder", "keeper.log") + ", or set WINDLASS_KEEPER=off"
	}
	return v
}

// provider checks one provider. One that is there without an entry in the
// configuration isn't needed.
func (o *doctorOptions) provider(ctx context.Context, c *config.Config, s *Session, name string) []CheckView {
	ctx, stop := context.WithTimeout(ctx, doctorTime)
	defer stop()
	checks := checkProvider(ctx, o.f.Streams, s, name)
	p, err := c.Provider(name)
	builtIn := err == nil && p.Origin.Kind == config.FromDefault && name != c.DefaultProvider && name != "local"
	for i := range checks {
		if builtIn && !checks[i].OK {
			checks[i].Needed = false
		}
	}
	return checks
}
