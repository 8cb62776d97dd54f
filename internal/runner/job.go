package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/windlass-run/windlass/internal/control"
	"github.com/windlass-run/windlass/internal/ledger"
	"github.com/windlass-run/windlass/internal/sandbox"
	"github.com/windlass-run/windlass/sdk"
	"github.com/windlass-run/windlass/sdk/plugin/pluginpb/sandboxpb"
)

// job is a run that the server drives for a caller.
type job struct {
	s     *Server
	id    sdk.ID
	actor string
	log   *slog.Logger
}

// see passes the job's output on and ends with its exit code. When the caller
// leaves, it returns after the job is proven to be gone. Either way the server
// waits at its own end until nothing of the job is left to do.
func (j *job) see(ctx context.Context, send func(*sandboxpb.SandboxExecChunk) error) error {
	follow, leave := context.WithCancel(ctx)
	defer leave()
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer j.s.done()
		defer close(gone)
		j.guard(follow, ctx, over)
	}()
	run, whole, err := j.pass(follow, send)
	if err != nil {
		j.log.Warn("the caller can't be told any more", "err", err)
		leave()
		<-gone
		return err
	}
	close(over)
	code, err := j.outcome(run, whole, j.exec(ctx))
	if err != nil {
		j.log.Info("job ended without a code for the caller", "state", run.State, "reason", run.Reason, "err", err)
		return err
	}
	j.log.Info("job ended", "state", run.State, "reason", run.Reason, "code", code)
	return send(&sandboxpb.SandboxExecChunk{Chunk: &sandboxpb.SandboxExecChunk_ExitCode{ExitCode: code}})
}

// guard cancels the job when follow ends or the server stops before it is over,
// and returns when nothing of it is left to do.
func (j *job) guard(follow, call context.Context, over <-chan struct{}) {
	ctx := context.WithoutCancel(call)
	if j.s.o.Mind != nil {
		mind, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer stop()
		wg.Go(func() { j.s.o.Mind(mind, j.id) })
	}
	actor, why := j.actor, "its caller has left"
	select {
	case <-over:
		j.finish(ctx)
		return
	case <-j.s.stopping:
		actor, why = j.s.o.Actor, "the runner is being stopped"
	case <-follow.Done():
		if errors.Is(call.Err(), context.DeadlineExceeded) {
			why = "the deadline of its call has passed"
		}
	}
	j.cancel(ctx, actor, why)
}

// cancel ends the job, and returns when it is proven to be gone and cleaned up.
func (j *job) cancel(ctx context.Context, actor, why string) {
	j.log.Info("cancelling job", "why", why)
	if err := j.s.o.Engine.Cancel(ctx, control.CancelRequest{Run: j.id, Actor: actor, Why: why}); err != nil {
		// It goes on until its own end, and so does the wait for it.
		j.log.Error("job can't be cancelled", "err", err)
	}
	j.finish(ctx)
}

func (j *job) finish(ctx context.Context) {
	run, err := j.s.o.Engine.Wait(ctx, j.id, control.MilestoneFinished)
	if err != nil {
		j.log.Error("job is left to whoever drives it", "err", err)
		return
	}
	j.log.Info("nothing of the job is left to do", "state", run.State)
}

// exec is why the job's command could not be run, as sdk.RawExec has it; empty where
// the backend hasn't proven that.
func (j *job) exec(ctx context.Context) string {
	all, err := j.s.o.Runs.Attempts(ctx, j.id)
	if err != nil {
		j.log.Error("why the job ended can't be read whole", "err", err)
	}
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].Raw[sdk.RawExec]
}

// outcome is the exit code that a caller is told, or why there is none. A code of
// 0 is told of a success alone.
func (j *job) outcome(run ledger.Run, whole bool, exec string) (int32, error) {
	short := run.ID.Short()
	fail := func(code sdk.Code, id, format string, args ...any) (int32, error) {
		return 0, &sdk.Error{Code: code, Op: opExec, ID: id, Err: fmt.Errorf("run %s: "+format, append([]any{short}, args...)...)}
	}
	if !whole || sandbox.Partial(run.Verdict) {
		end := string(run.State)
		if run.ExitCode != nil {
			end = fmt.Sprintf("%s with code %d", run.State, *run.ExitCode)
		}
		return fail(sdk.DataLoss, ErrOutput, "it %s, but a part of its output is missing (%s)", end, run.Verdict)
	}
	switch run.State {
	case sdk.StateSucceeded:
		if run.ExitCode != nil {
			return int32(*run.ExitCode), nil // a process's code has 32 bits
		}
		return 0, nil
	case sdk.StateCancelled:
		select {
		case <-j.s.stopping:
			return fail(sdk.Unavailable, ErrStopping, "the runner is being stopped; the job was cancelled and is gone")
		default:
			return fail(sdk.Aborted, ErrEnded, "it was cancelled by %s", run.CancelBy)
		}
	case sdk.StateFailed:
		if run.Reason == sdk.ReasonTimedOut {
			return fail(sdk.DeadlineExceeded, ErrEnded, "its time-out passed and it was ended")
		}
		switch {
		case exec == sdk.ExecNotFound:
			return fail(sdk.FailedPrecondition, ErrNotFound, notFoundWords+"%s", run.Message)
		case exec == sdk.ExecNotExecutable:
			return fail(sdk.FailedPrecondition, ErrNotExecutable, notExecutableWords+"%s", run.Message)
		case run.ExitCode != nil && *run.ExitCode != 0:
			return int32(*run.ExitCode), nil // a process's code has 32 bits
		}
	}
	words := string(run.Reason)
	if run.Message != "" {
		words += ": " + run.Message
	}
	return fail(codeOf(run.Reason), ErrEnded, "it ended as %s, without an exit code: %s", run.State, words)
}

// The words before the backend's own of a command that could not be run.
const (
	notFoundWords      = "the command wasn't found: "
	notExecutableWords = "the command can't be executed: "
)

// codeOf is the class of an end without a code: FailedPrecondition where nothing
// has run, Unavailable where a new call may help.
func codeOf(r sdk.Reason) sdk.Code {
	switch r {
	case sdk.ReasonImagePull, sdk.ReasonInvalidSpec, sdk.ReasonFailedToStart, sdk.ReasonStartTimeout, sdk.ReasonUnschedulable, sdk.ReasonPermissionDenied, sdk.ReasonCredentials:
		return sdk.FailedPrecondition
	case sdk.ReasonCapacity, sdk.ReasonQuota:
		return sdk.ResourceExhausted
	}
	if rule, ok := r.Rule(); ok && rule.Retry {
		return sdk.Unavailable
	}
	return sdk.Unknown
}
