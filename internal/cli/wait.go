package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

type waitOptions struct {
	f       *Factory
	refs    []string
	timeout string
	json    bool
}

func newWait(f *Factory, runF func(context.Context, *waitOptions) error) *cobra.Command {
	o := &waitOptions{f: f}
	cmd := &cobra.Command{
		Use:   "wait RUN...",
		Short: "Wait for runs to end, and end with the job's exit code",
		Long: `Wait until each run has ended, however it ends, and end with the job's own exit
code as windlass run would. Of several runs the first one in the list that didn't
succeed gives the code, and each run's end is printed.

--timeout bounds the waiting alone: the run is left as it is, and the exit code
is 125, never 0. So does an interrupt, with 130.`,
		Example: `  windlass wait nightly
  windlass wait --timeout 10m nightly`,
		Args: atLeast(1, "RUN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.refs = args
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			limit := time.Duration(0)
			if o.timeout != "" {
				var err error
				if limit, err = parseDuration(o.timeout); err != nil {
					return usagef(cmd, "--timeout: %w", err)
				}
				if limit == 0 {
					return usagef(cmd, "--timeout: %q is not above 0; windlass status tells how a run stands now", o.timeout)
				}
			}
			return o.run(cmd.Context(), limit)
		},
		ValidArgsFunction: f.completeRuns(true, openRun),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.timeout, "timeout", "", "wait for this `duration` at most, and leave the run alone")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// errWaitTimeout is the cause of a context whose wait took too long.
var errWaitTimeout = errors.New("the wait's time-out passed")

func (o *waitOptions) run(ctx context.Context, limit time.Duration) error {
	var s *Session
	runs := make([]ledger.Run, len(o.refs))
	for i, ref := range o.refs {
		var err error
		if s, runs[i], err = o.f.look(ctx, ref); err != nil {
			return err
		}
	}
	waiting := ctx
	if limit > 0 {
		var stop context.CancelFunc
		waiting, stop = context.WithTimeoutCause(ctx, limit, errWaitTimeout)
		defer stop()
	}
	for _, r := range runs {
		if !isRun(r) {
			continue
		}
		if err := o.f.attend(ctx, s, r); err != nil {
			return &runError{r.ID, err}
		}
	}
	ids := make([]sdk.ID, len(runs))
	for i, r := range runs {
		ids[i] = r.ID
	}
	defer s.mind(waiting, ids...)()
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i, r := range runs {
		wg.Go(func() {
			run, err := o.one(waiting, s, r)
			mu.Lock()
			defer mu.Unlock()
			if errs[i] = err; err == nil {
				runs[i] = run
				o.tell(run, lastAttempt(ctx, s.Store, run.ID))
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return &runError{runs[i].ID, waitError(waiting, runs[i], err, limit)}
		}
	}
	return o.end(ctx, s, runs)
}

// one waits for the end of one row.
func (o *waitOptions) one(ctx context.Context, s *Session, r ledger.Run) (ledger.Run, error) {
	if !isRun(r) {
		if err := o.f.settleChange(ctx, s, r); err != nil {
			return r, err
		}
	}
	return o.f.newHerald(r, o.f.graceOf(r), o.f.Streams.note).wait(ctx, s.Engine, waitFor(s, r.ID))
}

// waitFor is the milestone at which a wait is over: the end of the last
// attempt, or of all work where this command itself drives the run.
func waitFor(s *Session, id sdk.ID) control.Milestone {
	if slices.Contains(s.Engine.Held(), id) {
		return control.MilestoneFinished
	}
	return control.MilestoneEnded
}

func waitError(ctx context.Context, r ledger.Run, err error, limit time.Duration) error {
	if errors.Is(context.Cause(ctx), errWaitTimeout) {
		return &sdk.Error{Code: sdk.DeadlineExceeded, Op: "wait", ID: idWaitTimeout,
			Err:    fmt.Errorf("run %s hasn't ended within %s, and goes on", r.ID.Short(), limit),
			Remedy: forRun("windlass wait RUN waits again, windlass cancel RUN ends it", r.ID)}
	}
	return fmt.Errorf("wait for run %s: %w", r.ID.Short(), err)
}

// tell prints one of several runs as it ends.
func (o *waitOptions) tell(r ledger.Run, last *ledger.Attempt) {
	switch {
	case o.json:
	case len(o.refs) > 1:
		_, _ = fmt.Fprintf(o.f.Streams.Out, "%s %s %d\n", r.ID, r.State, outcomeOf(r, last).exit())
	default:
		tellOutcome(o.f.Streams, r, last)
	}
}

func (o *waitOptions) end(ctx context.Context, s *Session, runs []ledger.Run) error {
	code := ExitOK
	views := make([]RunView, len(runs))
	for i, r := range runs {
		last := lastAttempt(ctx, s.Store, r.ID)
		views[i] = viewRun(r, last)
		if c := outcomeOf(r, last).exit(); code == ExitOK {
			code = c
		}
	}
	if o.json {
		if err := writeJSON(o.f.Streams.Out, views); err != nil {
			return err
		}
	}
	return withExit(code)
}
