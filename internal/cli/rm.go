package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/config"
	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type rmOptions struct {
	f       *Factory
	refs    []string
	force   bool
	expired bool
	json    bool
}

func newRm(f *Factory, runF func(context.Context, *rmOptions) error) *cobra.Command {
	o := &rmOptions{f: f}
	cmd := &cobra.Command{
		Use:   "rm RUN... | rm --expired",
		Short: "Remove what finished runs left: output and kept objects",
		Long: `Remove the captured output of finished runs, and what --cleanup never or
on-success kept on the provider. The record stays: it is the audit. windlass
ledger prune is what cuts that.

--expired applies retention at once: it removes the output of every run that ended
longer ago than retention.logs says, the oldest of what is more than
retention.log_bytes, and what retention.ledger cuts off the record.`,
		Example: `  windlass rm nightly
  windlass rm --expired`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.refs = args
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			if o.expired == (len(args) > 0) {
				return usagef(cmd, "wants either RUN or --expired")
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeRuns(true, endedRun),
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.force, "force", "f", false, "cancel a run that hasn't ended first")
	fs.BoolVar(&o.expired, "expired", false, "remove what retention in the configuration doesn't keep")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// RemovedView is what rm removed.
type RemovedView struct {
	Runs []string `json:"runs" doc:"IDs of the runs whose output and kept objects are gone."`
}

func (o *rmOptions) run(ctx context.Context) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	v := RemovedView{Runs: []string{}}
	var errs []error
	remove := func(s *Session, run ledger.Run) {
		if err := o.remove(ctx, s, run, c.Actor); err != nil {
			errs = append(errs, &runError{run.ID, fmt.Errorf("rm %s: %w", run.ID.Short(), err)})
			return
		}
		v.Runs = append(v.Runs, run.ID.String())
		if !o.json {
			_, _ = fmt.Fprintln(o.f.Streams.Out, run.ID)
		}
	}
	if o.expired {
		var gone []sdk.ID
		gone, err = o.retain(ctx, c)
		for _, id := range gone {
			v.Runs = append(v.Runs, id.String())
		}
	} else {
		for _, ref := range o.refs {
			s, run, err := o.f.resolve(ctx, ref)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			remove(s, run)
		}
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	switch {
	case o.json:
		return writeJSON(o.f.Streams.Out, v)
	case o.expired:
		_, err := fmt.Fprintf(o.f.Streams.Out, "%s removed\n", count(len(v.Runs), "run's output", "runs' output"))
		return err
	}
	return nil
}

// retain applies retention, and returns the runs whose output went.
func (o *rmOptions) retain(ctx context.Context, c *config.Config) ([]sdk.ID, error) {
	if _, err := o.f.ledgerToChange(ctx); err != nil {
		return nil, err
	}
	s, err := o.f.open(ctx)
	if err != nil {
		return nil, err
	}
	done, err := s.Engine.Retain(ctx, retention(c), c.Actor)
	return done.Removed, err
}

func (o *rmOptions) remove(ctx context.Context, s *Session, run ledger.Run, actor string) error {
	if !isRun(run) {
		if _, err := o.f.changeEnded(ctx, s, run); err != nil {
			return err
		}
	} else if run.Open() && o.force {
		if err := s.Engine.Cancel(ctx, control.CancelRequest{Run: run.ID, Actor: actor, Why: "rm --force"}); err != nil {
			return err
		}
		if err := o.f.attend(ctx, s, run); err != nil {
			return err
		}
		if _, err := s.Engine.Wait(ctx, run.ID, control.MilestoneFinished); err != nil {
			return err
		}
	}
	err := s.Engine.Remove(ctx, run.ID, actor)
	var e *sdk.Error
	if errors.As(err, &e) && e.Code == sdk.FailedPrecondition && e.Remedy == "" {
		e.Remedy = "windlass rm --force cancels it first"
	}
	return err
}

// count says how many.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
