package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/sdk"
)

type rerunOptions struct {
	f           *Factory
	ref         string
	on          string
	cleanup     string
	interactive bool
	noCancel    bool
	detach      bool
	dryRun      bool
	json        bool
}

func newRerun(f *Factory, runF func(context.Context, *rerunOptions) error) *cobra.Command {
	o := &rerunOptions{f: f}
	cmd := &cobra.Command{
		Use:   "rerun RUN",
		Short: "Run the same job again, as a new run",
		Long: `Run the same job again: the same command, image, variables and limits, as a new
run with an ID and an outcome of its own. Secrets are references, so their values
are looked up anew; input that the first run had is given again with -i.`,
		Example: `  windlass rerun nightly
  windlass rerun --on docker -d nightly`,
		Annotations: map[string]string{streamAnnotation: "detach,dry-run"},
		Args:        exactly(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			j := jobFlags{cleanup: o.cleanup}
			policy, err := j.policy()
			if err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context(), policy)
		},
		ValidArgsFunction: f.completeRuns(false, nil),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.on, "on", "", "another `provider`; the first run's own by default")
	fs.StringVar(&o.cleanup, "cleanup", string(control.CleanupAlways), "remove what the run made: always, on-success or never")
	fs.BoolVar(&o.noCancel, "allow-no-cancel", false, "run on a provider that can't end jobs, which some plugins' can't")
	fs.BoolVarP(&o.interactive, "interactive", "i", false, "give the job this command's standard input")
	fs.BoolVarP(&o.detach, "detach", "d", false, "print the run's ID and leave it to itself")
	fs.BoolVar(&o.dryRun, "dry-run", false, "show what would be sent, and send nothing")
	fs.BoolVar(&o.json, "json", false, "print JSON: a line for each event, or one document with -d and --dry-run")
	complete(cmd, "on", f.completeProviders)
	complete(cmd, "cleanup", fixed("always", "on-success", "never"))
	return cmd
}

func (o *rerunOptions) run(ctx context.Context, policy control.CleanupPolicy) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	_, run, err := o.f.resolve(ctx, o.ref)
	if err != nil {
		return err
	}
	if run.Action != "run" {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "rerun", ID: idNoRerun, Remedy: "write the job out with windlass run",
			Err: fmt.Errorf("%s is a %s: its record doesn't hold the whole job", run.ID.Short(), run.Action)}
	}
	spec, err := sdk.DecodeSpec(run.Spec)
	if err != nil {
		return &runError{run.ID, fmt.Errorf("rerun %s: %w", run.ID.Short(), err)}
	}
	req := control.SubmitRequest{Provider: run.Provider, Spec: spec, Actor: c.Actor, Cleanup: policy, AllowNoCancel: o.noCancel}
	if o.on != "" {
		req.Provider = o.on
	}
	if _, err := c.Provider(req.Provider); err != nil {
		return err
	}
	switch {
	case o.interactive:
		req.Stdin, req.Spec.Stdin = o.f.Streams.In, sdk.StdinAttached
		if o.detach || spec.Retries > 0 {
			req.Spec.Stdin = sdk.StdinSpooled
		}
	case spec.Stdin != sdk.StdinNone:
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "rerun", ID: idNoInput, Remedy: "give it again with -i",
			Err: errors.New("the first run had input, which isn't kept")}
	}
	if err := o.f.addAmbient(&req); err != nil {
		return err
	}
	return submit(ctx, o.f, req, submitMode{detach: o.detach, dryRun: o.dryRun, json: o.json})
}
