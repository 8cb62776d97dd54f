package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/sdk"
)

type explainOptions struct {
	f    *Factory
	what string
	json bool
}

func newExplain(f *Factory, runF func(context.Context, *explainOptions) error) *cobra.Command {
	o := &explainOptions{f: f}
	cmd := &cobra.Command{
		Use:   "explain [ID|REASON|EXIT-CODE|PART]",
		Short: "Explain an error, a reason or an exit code",
		Long: `Explain an error by the ID that its message names, a run's reason such as
oom_killed, or an exit code of windlass run. The first part of an ID, such as ledger,
lists those that begin with it. Without an argument it lists all.`,
		Example: `  windlass explain run.refused
  windlass explain oom_killed
  windlass explain 125`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef(cmd, "%q is one argument too many", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.what = args[0]
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run()
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var out []string
			for _, e := range explanations() {
				out = append(out, e.ID+"\t"+e.Title)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// ExplainView is one explanation.
type ExplainView struct {
	ID     string `json:"id" doc:"Error ID, reason or exit code."`
	Title  string `json:"title" doc:"What happened."`
	Cause  string `json:"cause,omitzero" doc:"Why it happens."`
	Remedy string `json:"remedy,omitzero" doc:"What to do."`
}

// Exit codes by which shells tell of signals.
const exitKilled, exitTerminated = 137, 143

// explanations are errors, reasons and exit codes.
func explanations() []Entry {
	out := Catalog()
	for _, r := range sdk.ReasonRules() {
		cause := "A run has this reason in the state " + joinStates(r.States) + "."
		if r.Retry {
			cause += " --retries makes a new attempt after it."
		}
		remedy := reasonRemedy(r.Reason)
		if remedy != "" {
			remedy = strings.ToUpper(remedy[:1]) + remedy[1:] + "."
		} else {
			remedy = "Nothing needs to be mended; windlass status RUN tells more."
		}
		out = append(out, Entry{string(r.Reason), r.Doc, cause, remedy})
	}
	code := func(n int, title, cause, remedy string) {
		out = append(out, Entry{strconv.Itoa(n), title, cause, remedy})
	}
	code(ExitOK, "It worked.", "The job succeeded, or the command did what it was asked for.", "Nothing.")
	code(ExitFaults, "A check found something wrong, or the job's own code.", "ledger verify, doctor, provider check and config validate end so; a job may as well.",
		"Read what the check says of each fault, or the job's output: windlass logs RUN.")
	code(ExitUsage, "The command was called wrongly, or the job's own code.", "Every command but run ends so on a flag or argument that doesn't fit; run ends with 125.",
		"Read the command's own help with --help, or the job's output: windlass logs RUN.")
	code(ExitTimedOut, "The job's time-out passed.", "It wins over the job's own code, which windlass status and --json show.",
		"Raise --timeout, or find out from windlass logs RUN why it takes so long.")
	code(ExitWindlass, "Windlass or the provider failed.", "Also when run was called wrongly, or when the job didn't succeed and no code of it is known.",
		"Read the message on stderr, whose ID windlass explain knows; windlass status RUN says what became of a run.")
	code(ExitNotExecutable, "The command can't be executed.", "It was found, and is no program or may not be executed.", "Name a program, or make the file executable.")
	code(ExitNotFound, "The command wasn't found.", "Neither the job's machine nor its image has a program of that name.", "Correct the name, or take an image that has it. A shell's built-in needs the shell: -- sh -c '...'.")
	code(ExitInterrupted, "It was interrupted.", "The run was cancelled, by Ctrl-C or by windlass cancel, or the command itself was interrupted.",
		"windlass status RUN tells who cancelled it and whether it is gone.")
	code(exitKilled, "Most likely SIGKILL ended the job.", "128 + 9. A program may exit with 137 by itself too, so Windlass names a signal only where it has proof: see windlass status.",
		"Look for a lack of memory first: windlass status RUN says where one was seen, and --memory gives more.")
	code(exitTerminated, "Most likely SIGTERM ended the job.", "128 + 15. A program may exit with 143 by itself too, so Windlass names a signal only where it has proof: see windlass status.",
		"Find out who ended it: windlass status RUN has a cancel, and the provider's own words.")
	return out
}

func (o *explainOptions) run() error {
	all := explanations()
	if o.what == "" {
		return o.list(all)
	}
	var ids []string
	var family []Entry
	for _, e := range all {
		if e.ID == o.what {
			return o.one(e)
		}
		if strings.HasPrefix(e.ID, o.what+".") {
			family = append(family, e)
		}
		ids = append(ids, e.ID)
	}
	if len(family) > 0 {
		return o.list(family)
	}
	if n, err := strconv.Atoi(o.what); err == nil && n > 0 && n < 256 {
		return o.one(jobsOwn(n))
	}
	err := &sdk.Error{Code: sdk.NotFound, Op: "explain", Err: fmt.Errorf("nothing is called %q", o.what), Remedy: "windlass explain lists all"}
	near := nearest(o.what, ids)
	for _, id := range ids {
		if near == "" && len(o.what) > 1 && strings.HasPrefix(id, o.what) {
			near = id
		}
	}
	if near != "" {
		err.Remedy = fmt.Sprintf("did you mean %q? windlass explain lists all", near)
	}
	return err
}

// jobsOwn explains an exit code that has no meaning of ours.
func jobsOwn(n int) Entry {
	e := Entry{strconv.Itoa(n), "The job's own exit code.", "Windlass ends with the code of the job, and gives this one no meaning of its own.", "Read the job's output: windlass logs RUN."}
	if n > 128 && n < 128+65 {
		e.Cause += fmt.Sprintf(" Many programs and shells end with 128 + the number of a signal, here %d.", n-128)
	}
	return e
}

// one prints an explanation.
func (o *explainOptions) one(e Entry) error {
	s := o.f.Streams
	if o.json {
		return writeJSON(s.Out, ExplainView(e))
	}
	t := &fields{s: s}
	t.add(e.ID, e.Title)
	t.add("Cause", e.Cause)
	t.add("To do", e.Remedy)
	return t.print()
}

func (o *explainOptions) list(all []Entry) error {
	if o.json {
		views := make([]ExplainView, len(all))
		for i, e := range all {
			views[i] = ExplainView(e)
		}
		return writeJSON(o.f.Streams.Out, views)
	}
	t := &table{head: []string{"ID", "WHAT"}, flex: 1, wrap: true}
	for _, e := range all {
		t.add(plain(e.ID), plain(e.Title))
	}
	return t.print(o.f.Streams)
}
