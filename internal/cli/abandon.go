package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

type abandonOptions struct {
	f      *Factory
	ref    string
	reason string
	json   bool
}

func newAbandon(f *Factory, runF func(context.Context, *abandonOptions) error) *cobra.Command {
	o := &abandonOptions{f: f}
	cmd := &cobra.Command{
		Use:   "abandon RUN --reason WHY",
		Short: "Give up an unknown run as lost, on record",
		Long: `Give up a run whose state is unknown: its record ends as lost, with who did it
and why. Nothing is done on the provider; if the job runs there, it runs on.
Only an unknown run can be abandoned; windlass cancel ends the others.`,
		Example: `  windlass abandon nightly --reason 'the account is closed'`,
		Args:    exactly(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			if o.reason == "" {
				return usagef(cmd, "--reason is missing: the record says why a run was given up")
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeRuns(false, openRun),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.reason, "reason", "", "`why`, for the record; needed")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *abandonOptions) run(ctx context.Context) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	s, run, err := o.f.resolve(ctx, o.ref)
	if err != nil {
		return err
	}
	if err := s.Engine.Abandon(ctx, run.ID, c.Actor, o.reason); err != nil {
		return &runError{run.ID, err}
	}
	if run, err = s.Store.Run(ctx, run.ID); err != nil {
		return &runError{run.ID, err}
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, viewRun(run, lastAttempt(ctx, s.Store, run.ID)))
	}
	_, err = fmt.Fprintf(o.f.Streams.Out, "%s is given up as lost\n", run.ID.Short())
	return err
}
