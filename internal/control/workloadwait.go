package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-run/windlass/sdk"
)

// The times between two looks at a rollout: at first often, since most are over in
// seconds, then as often as the provider's jobs are looked at.
const (
	firstLook  = 200 * time.Millisecond
	lookGrowth = 2
)

// Wait follows a rollout until it is complete, and returns how the workload is
// then. rollout is OpResult.Rollout; empty is the newest change. limit is the
// wait's own deadline, 0 none: past it the rollout goes on, and the error is
// DeadlineExceeded with the ID ErrWorkloadWait. A rollout that the backend has
// given up, or that a later change has replaced, is FailedPrecondition with the ID
// ErrWorkloadRollout. A backend that doesn't answer is asked again.
func (w *WorkloadRuntime) Wait(ctx context.Context, t sdk.Target, rollout string, limit time.Duration) (sdk.DeploymentStatus, error) {
	op := "wait for " + t.String()
	back, err := w.backend(ctx, t.Provider, sdk.WorkloadStates().String())
	if err != nil {
		return sdk.DeploymentStatus{}, err
	}
	var deadline time.Time
	if limit > 0 {
		deadline = w.e.clock.Now().Add(limit)
	}
	var last sdk.DeploymentStatus
	every := firstLook
	for {
		res, err := w.look(ctx, back, sdk.WorkloadStatusRequest{Path: t.Path, Rollout: rollout})
		if err != nil && sdk.IsClear(err) && !sdk.IsRetryable(err) && !sdk.IsUnreached(err) {
			return last, err
		}
		if err == nil {
			last = res.Status
			if done, err := rolledOut(op, last, rollout); done {
				return last, err
			}
		}
		if ctx.Err() != nil {
			return last, &sdk.Error{Code: sdk.CodeOf(ctx.Err()), Op: op, Err: context.Cause(ctx)}
		}
		pause := max(every, sdk.RetryAfter(err))
		if left := deadline.Sub(w.e.clock.Now()); !deadline.IsZero() && left <= 0 {
			return last, w.tooLate(op, last, limit, err)
		} else if !deadline.IsZero() {
			pause = min(pause, left)
		}
		if err := w.e.clock.Sleep(ctx, pause); err != nil {
			return last, &sdk.Error{Code: sdk.CodeOf(err), Op: op, Err: err}
		}
		every = min(every*lookGrowth, max(back.pollInterval(), firstLook))
	}
}

// rolledOut reports whether a rollout is over, and how it ended.
func rolledOut(op string, st sdk.DeploymentStatus, rollout string) (bool, error) {
	fail := func(format string, args ...any) (bool, error) {
		return true, &sdk.Error{Code: sdk.FailedPrecondition, Op: op, ID: ErrWorkloadRollout, Remedy: "`windlass svc status` shows how it is now",
			Err: fmt.Errorf(format, args...)}
	}
	// Until the backend has seen the newest generation it tells of the one before.
	seen := st.GenerationSeen == "" || st.GenerationSeen == st.Generation
	switch {
	case st.Rollout == sdk.RolloutFailed && st.Failure != nil:
		return fail("the change was accepted, and didn't succeed: %s: %s", st.Failure.Reason, st.Failure.Message)
	case st.Rollout == sdk.RolloutFailed:
		return fail("the change was accepted, and didn't succeed; the backend gives no reason")
	case st.Rollout == sdk.RolloutComplete && seen:
		return true, nil
	case st.Rollout == sdk.RolloutUnknown && rollout != "" && seen:
		return fail("rollout %s isn't the newest any more: another change came after it", rollout)
	}
	return false, nil
}

// tooLate is the end of the wait's own deadline.
func (w *WorkloadRuntime) tooLate(op string, last sdk.DeploymentStatus, limit time.Duration, cause error) error {
	why := errors.New("the rollout goes on")
	switch {
	case cause != nil:
		why = fmt.Errorf("the backend doesn't answer: %w", cause)
	case last.Failure != nil:
		why = fmt.Errorf("the rollout goes on; the last failure is %s: %s", last.Failure.Reason, last.Failure.Message)
	case last.Ready != nil && last.Desired != nil:
		why = fmt.Errorf("the rollout goes on; %d of %d are ready", *last.Ready, *last.Desired)
	}
	return &sdk.Error{Code: sdk.DeadlineExceeded, Op: op, ID: ErrWorkloadWait, Remedy: "wait on with `windlass svc status --wait`",
		Err: fmt.Errorf("not over after %s: %w", limit, why)}
}
