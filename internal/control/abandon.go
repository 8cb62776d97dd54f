package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-run/windlass/internal/joblog"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// Abandon gives a run up as lost, on record. What it may have left on the
// backend stays there, or is cleaned up where the backend can be reached. Only
// a run in doubt can be abandoned: one that is unknown, or that nobody drives
// and whose provider can't be opened.
func (e *Engine) Abandon(ctx context.Context, id sdk.ID, actor, why string) error {
	if actor == "" || why == "" {
		return sdk.Errorf(sdk.InvalidArgument, "abandon run", "an actor and a reason are required")
	}
	run, err := e.o.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	if run.State != sdk.StateUnknown && !run.State.Terminal() {
		// A look at a run that nobody drives shows whether anybody can.
		if err := e.adoptOrphan(ctx, id); err != nil {
			return err
		}
		if run, err = e.o.Store.Run(ctx, id); err != nil {
			return err
		}
	}
	if run.State != sdk.StateUnknown {
		return &sdk.Error{Code: sdk.FailedPrecondition, Op: "abandon run", ID: "run.not-unknown",
			Remedy: "`windlass cancel` ends a run", Err: fmt.Errorf("run %s is %s; only an unknown run can be abandoned", id.Short(), run.State)}
	}
	lostReason := sdk.ReasonLost
	if sdk.LegalReason(sdk.StateLost, run.Reason) {
		lostReason = run.Reason
	}
	ev := ledger.NewEvent{Attempt: run.Attempt, Kind: ledger.KindAbandoned, Actor: actor,
		Change: ledger.Change{V: ledger.ChangeVersion, Phase: ledger.PhaseEnded, State: sdk.StateLost, Reason: reason(lostReason),
			Message: text("abandoned by " + actor + ": " + why)}}
	switch {
	case run.Attempt == 0:
		// No run: there is nothing to clean up, and nobody takes it up.
		ev.Change.Phase, ev.Change.Finished = "", true
	case attemptOver(run.Phase):
		// Between two attempts: the last one's end is known, the run's is given up.
		ev.Attempt, ev.Change.Phase = 0, ""
	}
	w := ledger.Write{Run: id, Events: []ledger.NewEvent{ev}}
	hits("before", w.Events)
	if err := e.o.Store.Write(ctx, w); err != nil {
		return err
	}
	hits("after", w.Events)
	if r := e.runner(id); r != nil {
		r.poke()
		return nil
	}
	return e.adoptOrphan(ctx, id)
}

// attemptOver reports whether an attempt in this phase has its own end.
func attemptOver(p ledger.Phase) bool {
	return p == ledger.PhaseEnded || p == ledger.PhaseDrained || p.Final()
}

// closeAbandoned finishes a run that a person gave up and whose provider can't
// be opened: what it may have left stays there, on record, for the reaper. It
// does nothing for a run that nobody gave up: another process may be able to
// end and clean that.
func (e *Engine) closeAbandoned(ctx context.Context, run ledger.Run, cause error) error {
	given := false
	for _, err := range e.o.Store.Events(ctx, ledger.EventFilter{Run: run.ID, Kinds: []ledger.Kind{ledger.KindAbandoned}, Limit: 1}) {
		if err != nil {
			return err
		}
		given = true
	}
	if !given {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, cancelCall)
	defer cancel()
	fence, err := e.o.Store.Claim(ctx, run.ID, e.self.ID, run.Fence)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			run.Fence = fence
			e.letGo(ctx, run)
		}
	}()
	if run, err = e.o.Store.Run(ctx, run.ID); err != nil {
		return err
	}
	attempts, err := e.o.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	set, err := decodeSettings(run.Settings)
	if err != nil {
		return err
	}
	r := e.newRunner(run, attempts, Backend{Name: run.Provider}, sdk.JobSpec{}, set)
	if err = r.closeUnreached(ctx, cause); err != nil {
		return err
	}
	e.warn(run.ID, "run %s: what it may have left on provider %s stays there until `windlass reap` can open it: %v", run.ID.Short(), run.Provider, cause)
	return nil
}

// closeUnreached takes the last attempt to its end without its backend.
func (r *runner) closeUnreached(ctx context.Context, cause error) error {
	if r.phase() == ledger.PhaseEnded {
		if err := r.drained(ctx, r.cutLog("the rest was not read: the run was abandoned and its provider can't be opened")); err != nil {
			return err
		}
	}
	if r.phase() == ledger.PhaseDrained {
		left := ""
		if !r.attempt().SentAt.IsZero() {
			left = "left for `windlass reap`, the provider can't be opened: " + cause.Error()
		}
		return r.cleaned(ctx, left)
	}
	return r.next(ctx)
}

// cutLog ends the log of an attempt whose rest isn't read, and says why.
func (r *runner) cutLog(why string) sdk.Verdict {
	v, err := r.cut(why)
	if err != nil {
		// A log's failure changes no state.
		r.e.warn(r.id, "run %s: its log can't be ended: %v", r.id.Short(), err)
		return sdk.VerdictGap
	}
	return v
}

func (r *runner) cut(why string) (v sdk.Verdict, err error) {
	w, err := r.e.o.Logs.Writer(joblog.Key{Run: r.id, Attempt: r.attempt().Number}, uint64(r.fence))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	v = sdk.VerdictUnavailable
	if w.Cursor() != nil {
		v = sdk.VerdictGap
		if err := w.Append(sdk.LogItem{Gap: &sdk.LogGap{Bytes: -1, Why: why}}); err != nil {
			return "", err
		}
	}
	return w.Finish(v)
}
