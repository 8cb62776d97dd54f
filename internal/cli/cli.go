package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Main runs the command line args, without the program's name, and returns the
// exit code.
func Main(f *Factory, args []string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	f.interrupts = &interrupts{handler: endContext(cancel, f.exit)}
	defer watchInterrupts(f.interrupts)()
	if f.Env.Get("GOTRACEBACK") == "" {
		defer watchQuit(f.Streams, f.exit)()
	}
	return run(ctx, f, args)
}

// run is Main with its context and signals made by the caller.
func run(ctx context.Context, f *Factory, args []string) int {
	if f.interrupts == nil {
		f.interrupts = &interrupts{}
	}
	root := NewRoot(f)
	root.SetArgs(args)
	root.SetIn(f.Streams.In)
	root.SetOut(f.Streams.Out)
	root.SetErr(f.Streams.Err)
	cmd, err := root.ExecuteContextC(ctx)
	err = causeOf(ctx, err)
	limit := closeTime
	if errors.Is(err, errInterrupted) {
		limit = quitTime
	}
	f.release(ctx, limit)
	var exit exitError
	if err == nil || errors.As(err, &exit) {
		return exitCode(err)
	}
	err = asUsage(cmd, err)
	switch {
	case wantsLines(cmd, args):
		b := f.Streams.describe(err)
		_ = encode(f.Streams.Out, Event{Event: eventError, Error: &b}, false)
	case wantsJSON(cmd, args):
		_ = writeJSONError(f.Streams, err)
	default:
		writeError(f.Streams, err)
	}
	return exitCode(err)
}

// asUsage marks cobra's own errors, which have no type, as errors of usage.
func asUsage(cmd *cobra.Command, err error) error {
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	for _, p := range []string{"unknown command ", "unknown flag: ", "unknown shorthand flag: ", "required flag(s)", "if any flags in the group"} {
		if strings.HasPrefix(err.Error(), p) {
			return usageOf(cmd, err)
		}
	}
	return err
}

// usageOf wraps an error of how cmd was called.
func usageOf(cmd *cobra.Command, err error) error {
	code := ExitUsage
	if cmd.Name() == "run" && cmd.HasParent() && !cmd.Parent().HasParent() {
		code = ExitWindlass
	}
	return &usageError{code: code, command: cmd.CommandPath(), err: err}
}

func usagef(cmd *cobra.Command, format string, args ...any) error {
	return usageOf(cmd, fmt.Errorf(format, args...))
}

// wantsJSON reports whether the command was asked for JSON, also when its
// flags could not be parsed.
func wantsJSON(cmd *cobra.Command, args []string) bool {
	if cmd == nil {
		return false
	}
	flag := cmd.Flags().Lookup("json")
	if flag == nil {
		return false
	}
	if flag.Value.String() == "true" {
		return true
	}
	for _, a := range args {
		switch a {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}

// wantsLines reports whether the command's JSON is a stream of events.
func wantsLines(cmd *cobra.Command, args []string) bool {
	return wantsJSON(cmd, args) && cmd.Annotations[streamAnnotation] != "" && !plainJSON(cmd)
}

// streamAnnotation marks commands whose --json is a stream of events.
const streamAnnotation = "windlass.stream"

// plainJSON reports whether a flag turns a stream into a single document.
func plainJSON(cmd *cobra.Command) bool {
	for _, name := range strings.Split(cmd.Annotations[streamAnnotation], ",") {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Value.String() == "true" {
			return true
		}
	}
	return false
}

// Groups of commands in the help.
const (
	groupRun   = "run"
	groupLive  = "live"
	groupKeep  = "keep"
	groupAudit = "audit"
	groupSetup = "setup"
)

// NewRoot returns the whole tree of commands.
func NewRoot(f *Factory) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "windlass",
		Short: "Run one-off jobs on the runtimes that you have",
		Long: `Windlass runs one-off container jobs on whatever runtime a team has, through one
contract, one command line and one audit ledger. A job behaves like a local
command: live output, its own exit code, and a Ctrl-C that really ends it.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef(cmd, "unknown command %q%s", args[0], nearCommand(cmd, args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return (&versionOptions{f: f}).run()
			}
			return overview(cmd.Context(), f)
		},
	}
	root.Flags().BoolVarP(&version, "version", "v", false, "print the version of this program")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SuggestionsMinimumDistance = 2
	root.SetHelpCommand(newHelp())
	root.SetHelpCommandGroupID(groupSetup)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if args := cmd.Flags().Args(); !cmd.HasParent() && len(args) > 0 {
			// The flag is that of a command that there is none of.
			return usagef(cmd, "unknown command %q%s", args[0], nearCommand(cmd, args[0]))
		}
		return usageOf(cmd, flagHint(cmd, err))
	})
	root.PersistentFlags().StringVar(&f.configFile, "config", "", "`file` to read in place of the windlass.yaml files that are found")
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Jobs:"}, &cobra.Group{ID: groupLive, Title: "Live workloads:"},
		&cobra.Group{ID: groupKeep, Title: "What stands beside them:"}, &cobra.Group{ID: groupAudit, Title: "Record:"},
		&cobra.Group{ID: groupSetup, Title: "Set-up:"})
	u := &usage{f.Streams, map[*cobra.Command]int{}}
	root.SetUsageFunc(u.write)
	root.SetHelpFunc(u.help)
	add := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			u.rank[c] = len(u.rank)
			root.AddCommand(c)
		}
	}
	add(groupRun, newRun(f, nil), newPs(f, nil), newStatus(f, nil), newLogs(f, nil), newWait(f, nil), newCancel(f, nil),
		newAbandon(f, nil), newAdopt(f, nil), newRerun(f, nil), newRm(f, nil), newStep(f))
	add(groupLive, newSvc(f))
	add(groupKeep, newResource(f))
	add(groupAudit, newLedger(f), newReap(f, nil))
	add(groupSetup, newInit(f, nil), newDoctor(f, nil), newDebug(f), newProvider(f), newPlugin(f), newConfig(f), newPocket(f), newRunner(f), newExplain(f, nil), newVersion(f, nil), newCompletion(f))
	return root
}

// nearCommand suggests the command that was meant.
func nearCommand(cmd *cobra.Command, word string) string {
	if s := cmd.SuggestionsFor(word); len(s) > 0 {
		return fmt.Sprintf("; did you mean %q?", s[0])
	}
	return ""
}

// exactly returns a check that a command has n arguments, which names says.
func exactly(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return usagef(cmd, "%s is missing", names)
		case len(args) > n:
			return usagef(cmd, "%q is one argument too many", args[n])
		}
		return nil
	}
}

// atLeast returns a check that a command has n arguments or more.
func atLeast(n int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usagef(cmd, "%s is missing", names)
		}
		return nil
	}
}

// flagHint adds what to do to an error about a flag that docker run has and
// windlass run hasn't.
func flagHint(cmd *cobra.Command, err error) error {
	var not *pflag.NotExistError
	if !errors.As(err, &not) {
		return err
	}
	name := not.GetSpecifiedName()
	if cmd.Name() == "run" {
		if hint, ok := dockerHints()[name]; ok {
			return fmt.Errorf("%w: %s", err, hint)
		}
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest(name, names); near != "" && len(name) > 3 {
		return fmt.Errorf("%w; did you mean --%s?", err, near)
	}
	return err
}

// dockerHints says what stands in for docker run's flags that run lacks.
func dockerHints() map[string]string {
	return map[string]string{
		"rm":           "what a run made is removed when it has ended; --cleanup never keeps it",
		"t":            "jobs have no terminal; use -i for input",
		"tty":          "jobs have no terminal; use -i for input",
		"privileged":   "no job is given privileges",
		"m":            "write --memory",
		"restart":      "a job runs once; --retries repeats failed attempts",
		"stop-timeout": "write --grace",
		"mount":        "write -v SOURCE:TARGET[:ro], or --tmpfs TARGET",
		"platform":     "write --option platform=VALUE where the provider has it",
		"p":            "a job publishes no ports",
		"publish":      "a job publishes no ports",
		"cidfile":      "-d prints the run's ID",
	}
}
