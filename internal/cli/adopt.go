package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
)

type adoptOptions struct {
	f       *Factory
	ref     string
	on      string
	cleanup string
	json    bool
}

func newAdopt(f *Factory, runF func(context.Context, *adoptOptions) error) *cobra.Command {
	o := &adoptOptions{f: f}
	cmd := &cobra.Command{
		Use:   "adopt --on PROVIDER RUN",
		Short: "Take up a run that another machine submitted",
		Long: `Make a record here for a run that the provider has and this ledger hasn't: it is
found by its labels alone, its output is captured from now on, and its end is
recorded and cleaned up after here. RUN is its full ID.

Without a keeper (WINDLASS_KEEPER=off) the command stays until all is done.`,
		Example: `  windlass adopt --on prod 01k7zq3m5e8v9r2t4w6y8a0c1d`,
		Args:    exactly(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			if o.on == "" {
				return usagef(cmd, "--on is missing: it names the provider that has the run")
			}
			j := jobFlags{cleanup: o.cleanup}
			policy, err := j.policy()
			if err != nil {
				return usageOf(cmd, err)
			}
			return o.run(cmd.Context(), policy)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&o.on, "on", "", "the `provider` that has the run; needed")
	fs.StringVar(&o.cleanup, "cleanup", string(control.CleanupAlways), "remove what the run made: always, on-success or never")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "on", f.completeProviders)
	complete(cmd, "cleanup", fixed("always", "on-success", "never"))
	return cmd
}

func (o *adoptOptions) run(ctx context.Context, policy control.CleanupPolicy) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	id, err := parseRunID(o.ref)
	if err != nil {
		return err
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	run, err := s.Engine.Adopt(ctx, control.AdoptRequest{Provider: o.on, Run: id, Actor: c.Actor, Cleanup: policy})
	if err != nil {
		return &runError{id, err}
	}
	if s.Keeper != nil {
		err = s.Keeper.Take(ctx, id)
	} else {
		o.f.Streams.hint("run %s is adopted; staying until it is done, since WINDLASS_KEEPER is off", id.Short())
		run, err = s.Engine.Wait(ctx, id, control.MilestoneFinished)
	}
	if err != nil {
		return &runError{id, fmt.Errorf("adopt run %s: %w", id.Short(), err)}
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, viewRun(run, lastAttempt(ctx, s.Store, id)))
	}
	if _, err := fmt.Fprintln(o.f.Streams.Out, id); err != nil {
		return err
	}
	o.f.Streams.hint("next: %s", nextWords(id))
	return nil
}
