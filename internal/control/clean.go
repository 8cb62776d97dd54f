package control

import (
	"context"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// clean removes what the attempt made, once its output is safe.
func (r *runner) clean(ctx context.Context) error {
	if r.capture != nil {
		r.capture.stop()
		r.capture = nil
	}
	a := r.attempt()
	if a.Handle == nil {
		// Nothing is known to be there.
		return r.cleaned(ctx, "")
	}
	jc, ok := sdk.Of(r.back.Provider, sdk.Cleaner())
	if r.set.keeps(a.State) || !ok {
		return r.over(ctx, ledger.KindKept, ledger.PhaseKept, "")
	}
	h, err := r.decodeHandle()
	if err != nil {
		return err
	}
	b := r.backoff(500*time.Millisecond, time.Minute)
	places := r.e.poller(r.back).cleans
	for first := true; ; first = false {
		select {
		case places <- struct{}{}: // first come, first served
		case <-ctx.Done():
			return errStopped
		}
		_, err := call(ctx, r.back.callTimeout(), "clean", func(ctx context.Context) (sdk.CleanupJobResult, error) {
			return jc.CleanupJob(ctx, sdk.CleanupJobRequest{Handle: h})
		})
		<-places
		if err == nil || sdk.CodeOf(err) == sdk.NotFound {
			return r.cleaned(ctx, "")
		}
		if ctx.Err() != nil {
			return errStopped
		}
		if a.State == sdk.StateLost {
			// It can't be told what is still there: the reaper looks again.
			return r.cleaned(ctx, "left for `windlass reap`: "+err.Error())
		}
		if first || r.attempt().CleanupErr != r.e.o.Redact(err.Error()) {
			r.e.warn(r.id, "run %s: clean-up failed and is tried again: %v", r.id.Short(), err)
			if err := r.record(ctx, r.event(ledger.KindCleanupErr, ledger.Change{CleanupErr: text(err.Error())})); err != nil {
				return err
			}
		}
		if err := r.sleep(ctx, max(b.NextBackOff(), sdk.RetryAfter(err))); err != nil {
			return err
		}
	}
}

// keeps reports whether an attempt's objects stay when it ended in a state.
func (s settings) keeps(state sdk.JobState) bool {
	return s.Cleanup == CleanupNever || s.Cleanup == CleanupOnSuccess && state != sdk.StateSucceeded
}

func (r *runner) cleaned(ctx context.Context, left string) error {
	return r.over(ctx, ledger.KindCleaned, ledger.PhaseCleaned, left)
}

// over records the last step of an attempt, and of the run when no other
// attempt follows.
func (r *runner) over(ctx context.Context, kind ledger.Kind, phase ledger.Phase, left string) error {
	evs := []ledger.NewEvent{r.event(kind, ledger.Change{Phase: phase, CleanupErr: text(left)})}
	if r.run.State.Terminal() {
		r.removeSpool()
		evs = append(evs, ledger.NewEvent{Kind: ledger.KindFinished, Change: ledger.Change{Finished: true}})
	}
	return r.record(ctx, evs...)
}

// next finishes the run, or prepares its next attempt.
func (r *runner) next(ctx context.Context) error {
	if r.run.State.Terminal() {
		r.removeSpool()
		return r.record(ctx, ledger.NewEvent{Kind: ledger.KindFinished, Change: ledger.Change{Finished: true}})
	}
	if !r.run.CancelAt.IsZero() {
		return r.record(ctx, ledger.NewEvent{Kind: ledger.KindEnded, Change: ledger.Change{State: sdk.StateCancelled,
			Reason: reason(sdk.ReasonCancelled), Message: text("cancelled between two attempts")}})
	}
	return r.prepareNext(ctx)
}

func (r *runner) mayRetry(state sdk.JobState, why sdk.Reason) bool {
	if state != sdk.StateFailed || r.attempt().Number > r.spec.Retries || !r.run.CancelAt.IsZero() || r.run.State.Terminal() {
		return false
	}
	rule, ok := why.Rule()
	return ok && rule.Retry
}

// retryWait is the wait before attempt n+1: 1, 2, 4 ... 60 seconds.
func retryWait(n int) time.Duration {
	return min(time.Second<<min(n-1, 6), time.Minute)
}

func (r *runner) prepareNext(ctx context.Context) error {
	n := r.attempt().Number
	id := r.e.o.IDs.NewID()
	amb, err := r.ambient()
	if err != nil {
		return err
	}
	l, err := r.e.prepare(ctx, r.back, r.spec, r.id, id, n+1, amb)
	if err == nil && len(l.Problems) > 0 {
		err = &ProblemsError{Provider: r.back.Name, Problems: l.Problems}
	}
	if err != nil {
		if ctx.Err() != nil {
			return errStopped
		}
		if !sdk.IsClear(err) || sdk.IsRetryable(err) {
			r.e.warn(r.id, "run %s: the next attempt can't be prepared, trying again: %v", r.id.Short(), err)
			return r.sleep(ctx, retryWait(n))
		}
		last := r.attempt()
		return r.record(ctx, ledger.NewEvent{Kind: ledger.KindEnded, Change: ledger.Change{State: sdk.StateFailed, Reason: reason(last.Reason),
			ExitCode: last.ExitCode, Message: text("no further attempt: " + err.Error())}})
	}
	b, err := l.Encode()
	if err != nil {
		return err
	}
	r.launch, r.ending, r.sawRunning = l, ending{}, time.Time{}
	at := r.e.clock.Now().UTC().Add(retryWait(n))
	return r.record(ctx,
		ledger.NewEvent{Attempt: n + 1, Kind: ledger.KindIntent, Change: ledger.Change{Launched: &ledger.Launched{ID: id, Launch: b},
			Phase: ledger.PhaseIntent}},
		ledger.NewEvent{Kind: ledger.KindRetry, Change: ledger.Change{State: sdk.StatePending, Reason: reason(sdk.ReasonQueued),
			Message: text("waits for its next attempt"), NotBefore: at}})
}
