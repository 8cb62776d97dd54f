package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type cancelOptions struct {
	f      *Factory
	refs   []string
	on     string
	reason string
	noWait bool
	json   bool
}

func newCancel(f *Factory, runF func(context.Context, *cancelOptions) error) *cobra.Command {
	o := &cancelOptions{f: f}
	cmd := &cobra.Command{
		Use:   "cancel RUN...",
		Short: "End runs, and wait for proof that they are gone",
		Long: `Ask for the end of runs and wait until it is proven. The request is on record
first; whichever process drives the run acts on it, and a run that nobody drives
is taken up for it. A run that has ended already is no error.

With --on the job is found on the provider by its labels and ended there, also
when another machine submitted it; RUN is its full ID then.`,
		Example: `  windlass cancel nightly
  windlass cancel --reason 'wrong branch' nightly
  windlass cancel --on prod 01k7zq3m5e8v9r2t4w6y8a0c1d`,
		Args: atLeast(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.refs = args
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
		ValidArgsFunction: f.completeRuns(true, openRun),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.reason, "reason", "", "`why`, for the record")
	fs.BoolVar(&o.noWait, "no-wait", false, "return when the request is on record")
	fs.StringVar(&o.on, "on", "", "find the run on this `provider` by its labels")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	complete(cmd, "on", f.completeProviders)
	return cmd
}

func (o *cancelOptions) run(ctx context.Context) error {
	c, err := o.f.cfg()
	if err != nil {
		return err
	}
	if o.on != "" {
		return o.remote(ctx, c.Actor)
	}
	var views []RunView
	var errs []error
	for _, ref := range o.refs {
		run, last, err := o.one(ctx, c.Actor, ref)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		views = append(views, viewRun(run, last))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, views)
	}
	return nil
}

func (o *cancelOptions) one(ctx context.Context, actor, ref string) (ledger.Run, *ledger.Attempt, error) {
	s, run, err := o.f.resolve(ctx, ref)
	if err != nil {
		return run, nil, err
	}
	if !isRun(run) {
		if run, err = o.f.changeEnded(ctx, s, run); err != nil {
			return run, nil, &runError{run.ID, fmt.Errorf("cancel: %w", err)}
		}
	}
	ended := run.State.Terminal()
	if err := s.Engine.Cancel(ctx, control.CancelRequest{Run: run.ID, Actor: actor, Why: o.reason}); err != nil {
		return run, nil, &runError{run.ID, fmt.Errorf("cancel run %s: %w", run.ID.Short(), err)}
	}
	if s.Keeper != nil && !ended {
		if err := s.Keeper.Wake(ctx); err != nil {
			return run, nil, &runError{run.ID, fmt.Errorf("cancel run %s: %w", run.ID.Short(), err)}
		}
	}
	if !o.noWait {
		if !ended {
			if o.f.cantEnd(ctx, s, run) {
				o.f.Streams.note("%s can't end jobs: that run %s should end is on record, and it is waited for to end by itself; Ctrl-C leaves", run.Provider, run.ID.Short())
			} else {
				o.f.Streams.hint("waiting for proof that %s is gone%s", run.ID.Short(), o.f.graceWords(run))
			}
		}
		defer s.mind(ctx, run.ID)()
		if run, err = o.f.newHerald(run, o.f.graceOf(run), o.f.Streams.note).wait(ctx, s.Engine, waitFor(s, run.ID)); err != nil {
			return run, nil, &runError{run.ID, fmt.Errorf("cancel run %s: asked for, and its end isn't proven yet: %w", run.ID.Short(), err)}
		}
	}
	last := lastAttempt(ctx, s.Store, run.ID)
	if !o.json {
		return run, last, o.tell(run, ended)
	}
	return run, last, nil
}

// cantEnd reports whether a run's provider is known to have no way to end jobs. Each
// kind that is built in has one, and is not opened for this.
func (f *Factory) cantEnd(ctx context.Context, s *Session, run ledger.Run) bool {
	if unsent(run) || f.driverOf(run.Provider) != nil {
		return false
	}
	back, err := s.Providers.BackendFor(ctx, run)
	return err == nil && !sdk.Has(back.Provider, sdk.Canceler().String())
}

func (o *cancelOptions) tell(run ledger.Run, ended bool) error {
	text := ""
	switch {
	case ended:
		text = fmt.Sprintf("%s had ended before: %s", run.ID.Short(), stateWords(run))
	case o.noWait:
		text = run.ID.Short() + " is asked to end"
	case run.State == sdk.StateCancelled:
		text = run.ID.Short() + " cancelled"
	default:
		text = fmt.Sprintf("%s ended by itself: %s", run.ID.Short(), stateWords(run))
	}
	_, err := fmt.Fprintln(o.f.Streams.Out, text)
	return err
}

// RemoteCancelView is the outcome of a cancel by labels.
type RemoteCancelView struct {
	Run      string `json:"run" doc:"The run's ID."`
	Provider string `json:"provider" doc:"Where it was found."`
	Accepted bool   `json:"accepted" doc:"The provider took the request."`
	Gone     bool   `json:"gone" doc:"It is proven that nothing of the job runs any more."`
	Evidence string `json:"evidence,omitzero" doc:"The provider's own words: of the cancel, and of the look that proved the end, where that came later."`
}

// goneLooks bounds how often a cancel by labels looks for proof.
const goneLooks = 60

func (o *cancelOptions) remote(ctx context.Context, actor string) error {
	s, err := o.f.open(ctx)
	if err != nil {
		return err
	}
	views := []RemoteCancelView{}
	for _, ref := range o.refs {
		id, err := parseRunID(ref)
		if err != nil {
			return err
		}
		res, err := s.Engine.RemoteCancel(ctx, o.on, id, actor, o.reason)
		if err != nil {
			return &runError{id, fmt.Errorf("cancel run %s: %w", id.Short(), err)}
		}
		if !res.Gone && !o.noWait {
			var seen string
			if res.Gone, seen = o.proof(ctx, s, id); seen != "" {
				res.Evidence = strings.TrimPrefix(res.Evidence+"; afterwards: "+seen, "; afterwards: ")
			}
		}
		views = append(views, RemoteCancelView{Run: id.String(), Provider: o.on, Accepted: res.Accepted, Gone: res.Gone, Evidence: res.Evidence})
		if !o.json {
			text := id.Short() + " is gone from " + o.on
			if !res.Gone {
				text = id.Short() + " is asked to end on " + o.on + "; that it is gone isn't proven yet"
			}
			if _, err := fmt.Fprintln(o.f.Streams.Out, text); err != nil {
				return err
			}
		}
	}
	if o.json {
		return writeJSON(o.f.Streams.Out, views)
	}
	return nil
}

// proof asks the provider until the job has ended, for two minutes at most. It returns
// what the provider said last.
func (o *cancelOptions) proof(ctx context.Context, s *Session, id sdk.ID) (gone bool, seen string) {
	for range goneLooks {
		job, err := s.Engine.Remote(ctx, o.on, id)
		switch {
		case sdk.CodeOf(err) == sdk.NotFound:
			return true, "nothing there carries the run any more"
		case err == nil:
			seen = seenWords(job.Status)
			if job.Status.State.Terminal() {
				return true, seen
			}
		}
		if pause(ctx, remoteLook) != nil {
			return false, seen
		}
	}
	return false, seen
}

// seenWords say in one line what a provider tells of a job.
func seenWords(st sdk.JobStatusResult) string {
	text := string(st.State)
	if st.Reason != "" && string(st.Reason) != text {
		text += " (" + string(st.Reason) + ")"
	}
	if st.Message != "" {
		text += ", " + st.Message
	}
	for _, k := range sortedKeys(st.Raw) {
		if st.Raw[k] != "" {
			text += ", " + k + " " + st.Raw[k]
		}
	}
	return text
}
