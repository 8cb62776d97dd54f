package control

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/sdk"
)

// accepted reports whether a row's change is known to be with the backend, while its
// rollout is followed.
func accepted(run ledger.Run) bool { return run.State == sdk.StateRunning }

// accepted records that the backend has taken the change, and leaves the row open.
func (a workloadAction) accepted(ctx context.Context, c Change) error {
	return a.record(ctx, ledger.KindObserved, ledger.Change{V: ledger.ChangeVersion, State: sdk.StateRunning, Detail: c.detail()})
}

// closeAccepted closes the row of a change that was accepted, and whose process died
// while it followed the rollout.
func (w *WorkloadRuntime) closeAccepted(ctx context.Context, run ledger.Run) error {
	return workloadAction{w: w, id: run.ID, by: w.e.o.Actor}.record(ctx, ledger.KindFinished, ledger.Change{V: ledger.ChangeVersion, State: sdk.StateSucceeded,
		Reason: reason(sdk.ReasonCompleted), Finished: true, Message: text("the backend accepted the change; its process ended before the rollout did")})
}

// rolledOut follows the change until limit, and records how that ended. The row has
// failed only where the backend says so: a wait that ends sooner leaves a change that
// was accepted.
func (a workloadAction) rolledOut(ctx context.Context, c *Change, limit time.Duration) error {
	st, err := a.w.Wait(ctx, c.Target, c.Op.Rollout, limit)
	if st.Path != "" {
		c.After = &st
	}
	ch := ledger.Change{V: ledger.ChangeVersion, State: sdk.StateSucceeded, Reason: reason(sdk.ReasonCompleted), Finished: true,
		Detail: map[string]string{"rollout_state": string(st.Rollout)}}
	switch {
	case err == nil:
	case st.Rollout == sdk.RolloutFailed:
		ch.State, ch.Reason = sdk.StateFailed, reason(rolloutReason(st.Failure))
		ch.Message = text(a.w.e.o.Redact(strings.ToValidUTF8(err.Error(), "?")))
	default:
		ch.Message = text("the backend accepted the change; how its rollout ended isn't known: " + a.w.e.o.Redact(strings.ToValidUTF8(err.Error(), "?")))
	}
	if recErr := a.record(ctx, ledger.KindFinished, ch); recErr != nil {
		return errors.Join(err, recErr)
	}
	return err
}

// rolloutReason is why a rollout failed, where that may stand in a row.
func rolloutReason(f *sdk.WorkloadFailure) sdk.Reason {
	if f == nil || !sdk.LegalReason(sdk.StateFailed, f.Reason) || f.Reason == "" {
		return sdk.ReasonUnknown
	}
	return f.Reason
}
