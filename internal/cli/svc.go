package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

func newSvc(f *Factory) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "svc ls|status|start|stop|restart|scale|config|exec|logs|top",
		Aliases: []string{"service", "services"},
		Short:   "Operate live workloads",
		Long: `Operate services that go on until they are stopped. A workload is named
PROVIDER/PATH, as svc ls prints it; a name alone will do where only one workload
of all providers has it.

Every change is a row of the ledger before it is made, and its outcome is recorded
after it. Two changes of one workload never cross: the second is refused and told
whose the first is.`,
		Args: group,
		RunE: groupHelp,
	}
	cmd.AddCommand(newSvcLs(f, nil), newSvcStatus(f, nil), newSvcStart(f, nil), newSvcStop(f, nil), newSvcRestart(f, nil), newSvcScale(f, nil),
		newSvcConfig(f, nil), newSvcExec(f, nil), newSvcLogs(f, nil), newSvcTop(f, nil))
	return cmd
}

// workloads opens the session for live workloads.
func (f *Factory) workloads(ctx context.Context) (*control.WorkloadRuntime, error) {
	s, err := f.open(ctx)
	if err != nil {
		return nil, err
	}
	if s.Workloads == nil {
		return nil, &sdk.Error{Code: sdk.Unimplemented, Op: "open workloads", ID: idNothingHere, Err: errors.New("this build has no live workloads")}
	}
	return s.Workloads, nil
}

// workload opens the session and finds the workload that is meant.
func (f *Factory) workload(ctx context.Context, ref string) (*control.WorkloadRuntime, sdk.Target, error) {
	w, err := f.workloads(ctx)
	if err != nil {
		return nil, sdk.Target{}, err
	}
	t, err := w.Resolve(ctx, ref)
	return w, t, err
}

// defaultWait is the deadline of --wait.
const defaultWait = 10 * time.Minute

// waitFlags are those of waiting for a rollout.
type waitFlags struct {
	wait    bool
	timeout time.Duration
}

func (o *waitFlags) add(fs *pflag.FlagSet) {
	fs.BoolVar(&o.wait, "wait", false, "wait until the change is rolled out")
	fs.DurationVar(&o.timeout, "wait-timeout", defaultWait, "give up on waiting after this `time`; the change goes on")
}

func (o *waitFlags) check() error {
	if o.timeout <= 0 {
		return errors.New("--wait-timeout: is above 0")
	}
	return nil
}

// changeFlags are those of every command that changes a workload.
type changeFlags struct {
	waitFlags
	expectReplicas    int
	expectGeneration  string
	againstAutoscaler bool
	dryRun            bool
	json              bool
}

// unset is the value of a number that wasn't given.
const unset = -1

func (o *changeFlags) add(fs *pflag.FlagSet, count bool) {
	o.waitFlags.add(fs)
	fs.IntVar(&o.expectReplicas, "expect-replicas", unset, "refuse unless so `many` replicas are wanted at the moment")
	fs.StringVar(&o.expectGeneration, "expect-generation", "", "refuse unless this is the `generation` at the moment, as svc status prints it")
	if count {
		fs.BoolVar(&o.againstAutoscaler, "against-autoscaler", false, "do it though an autoscaler will change the count again")
	}
	fs.BoolVar(&o.dryRun, "dry-run", false, "show the calls that would be made; makes none and writes no row")
	fs.BoolVar(&o.json, "json", false, "print JSON")
}

func (o *changeFlags) check(fs *pflag.FlagSet) error {
	if fs.Changed("expect-replicas") && o.expectReplicas < 0 {
		return errors.New("--expect-replicas: is 0 or more")
	}
	if o.dryRun && o.wait {
		return errors.New("--wait: a dry run changes nothing that could be waited for")
	}
	return o.waitFlags.check()
}

// request asks for a change of a workload.
func (o *changeFlags) request(f *Factory, t sdk.Target) (control.ChangeRequest, error) {
	c, err := f.cfg()
	if err != nil {
		return control.ChangeRequest{}, err
	}
	r := control.ChangeRequest{Target: t, Actor: c.Actor, AgainstAutoscaler: o.againstAutoscaler, DryRun: o.dryRun}
	r.Expect.Generation = o.expectGeneration
	if n := o.expectReplicas; n != unset {
		r.Expect.Replicas = &n
	}
	if o.wait {
		r.Wait = o.timeout
	}
	return r, nil
}

// ChangeView is a change of a workload.
type ChangeView struct {
	Target   string            `json:"target" doc:"PROVIDER/PATH."`
	Action   string            `json:"action" doc:"The verb, as the ledger has it: svc.scale and so on."`
	Run      string            `json:"run,omitzero" doc:"ID of the ledger's row; none for a dry run."`
	Changed  bool              `json:"changed" doc:"Something was changed, or would be by a dry run; false where it was so already."`
	ReadBack bool              `json:"read_back,omitzero" doc:"The reply was lost, and the backend has the change."`
	Before   *WorkloadView     `json:"before" doc:"How it was before; null where there was none."`
	Gen      string            `json:"generation,omitzero" doc:"Generation behind the change."`
	Rollout  string            `json:"rollout,omitzero" doc:"The backend's name of what the change set going."`
	Trace    string            `json:"trace,omitzero" doc:"Where the operation can be found again on the backend."`
	Revision string            `json:"revision,omitzero" doc:"Name of the settings behind svc config."`
	Restores *int              `json:"restores,omitzero" doc:"How many replicas svc start brings back."`
	Warnings []string          `json:"warnings,omitzero" doc:"What the backend does besides."`
	Calls    []sdk.PlannedCall `json:"calls,omitzero" doc:"The calls of a dry run, in order."`
	After    *WorkloadView     `json:"after,omitzero" doc:"How it is after --wait."`
}

// done shows what a change came to.
func (o *changeFlags) done(f *Factory, action string, c control.Change, err error) error {
	s := f.Streams
	for _, warning := range c.Op.Warnings {
		s.note("%s", warning)
	}
	switch {
	case err != nil:
		return rowError(c, err)
	case o.json:
		return writeJSON(s.Out, viewSvcChange(action, c))
	case o.dryRun:
		return printCalls(s, c.Op)
	}
	_, err = fmt.Fprintln(s.Out, clean(svcWords(action, c)))
	return err
}

// rowError is the error of a change, which may have its row.
func rowError(c control.Change, err error) error {
	if c.Row.ID.IsZero() {
		return err
	}
	return &runError{c.Row.ID, err}
}

func viewSvcChange(action string, c control.Change) ChangeView {
	v := ChangeView{Target: c.Target.String(), Action: action, Changed: c.Op.Changed, ReadBack: c.ReadBack, Gen: c.Op.Generation, Rollout: c.Op.Rollout,
		Trace: c.Op.Trace, Revision: c.Revision, Restores: c.Restores, Warnings: c.Op.Warnings, Calls: c.Op.Calls}
	if !c.Row.ID.IsZero() {
		v.Run = c.Row.ID.String()
	}
	if c.Before != nil {
		before := viewStatus(c.Target, *c.Before)
		v.Before = &before
	}
	if c.After != nil {
		view := viewStatus(c.Target, *c.After)
		v.After = &view
	}
	return v
}

// svcWords says in one line what was done.
func svcWords(action string, c control.Change) string {
	done := map[string]string{"svc.start": "started", "svc.stop": "stopped", "svc.scale": "scaled", "svc.restart": "restarted", "svc.config": "configured"}[action]
	words := c.Target.String() + ": " + done
	switch {
	case !c.Op.Changed:
		words = c.Target.String() + ": nothing to change"
	case c.Scaled != nil && c.Before != nil && c.Before.Desired != nil:
		words += fmt.Sprintf(" from %d to %d", *c.Before.Desired, *c.Scaled)
	case c.Scaled != nil:
		words += " to " + strconv.Itoa(*c.Scaled)
	case c.Restores != nil:
		words += "; svc start brings " + count(*c.Restores, "replica", "replicas") + " back"
	case c.Revision != "":
		words += ", revision " + c.Revision
	}
	if c.ReadBack {
		words += " (the reply was lost; the provider has the change)"
	}
	if st := c.After; st != nil {
		return words + ", rolled out: " + readySentence(st.Ready, st.Desired)
	}
	return words
}

// printCalls shows what a dry run would do.
func printCalls(s *Streams, r sdk.OpResult) error {
	if !r.Changed && len(r.Calls) == 0 {
		_, err := fmt.Fprintln(s.Out, "nothing to change")
		return err
	}
	for _, c := range r.Calls {
		if _, err := fmt.Fprintf(s.Out, "%s  %s%s\n", clean(c.Name), clean(c.Object), argWords(c.Args)); err != nil {
			return err
		}
	}
	return nil
}

// changeCommand makes a command that changes the workload that its first argument
// names. n is how many arguments it takes, more adds its flags.
func changeCommand(f *Factory, cmd *cobra.Command, o *changeFlags, n int, names string, count bool,
	run func(ctx context.Context, cmd *cobra.Command, args []string) error) *cobra.Command {
	cmd.Args = exactly(n, names)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(cmd.Flags()); err != nil {
			return usageOf(cmd, err)
		}
		return run(cmd.Context(), cmd, args)
	}
	cmd.ValidArgsFunction = f.completeWorkloads
	o.add(cmd.Flags(), count)
	return cmd
}

// completeWorkloads completes a workload, as far as the providers answer in time.
func (f *Factory) completeWorkloads(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	w, err := f.workloads(ctx)
	if err != nil {
		return nil, none
	}
	var out []string
	for _, l := range w.ListAll(ctx, nil, "") {
		for _, x := range l.Workloads {
			out = append(out, x.Target.String()+"\t"+shorten(clean(x.Item.Image), 40))
		}
	}
	return out, none
}
