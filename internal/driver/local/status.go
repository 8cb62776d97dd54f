//go:build linux || darwin

package local

import (
	"context"
	"fmt"
	"strconv"

	"github.com/windlass-run/windlass/internal/driver/local/attempt"
	"github.com/windlass-run/windlass/sdk"
)

// JobStatus reads the attempt's record and asks the kernel about its
// supervisor.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	const op = "read job status"
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusResult{}, p.fail(op, context.Cause(ctx))
	}
	f, id, err := p.attempt(op, r.Handle)
	if err != nil {
		return sdk.JobStatusResult{}, err
	}
	v, err := p.look(f)
	if err != nil {
		return sdk.JobStatusResult{}, p.fail(op, err)
	}
	res := sdk.JobStatusResult{CreatedAt: v.launch.CreatedAt, StartedAt: v.started.At}
	switch v.stage {
	case stageAbsent:
		return sdk.JobStatusResult{}, p.absent(op, id)
	case stageUnsent:
		if f.Has(attempt.CancelFile) {
			res.State, res.Reason, res.Message = sdk.StateCancelled, sdk.ReasonCancelled, "cancelled before it was started"
			return res, nil
		}
		return sdk.JobStatusResult{}, p.failf(sdk.NotFound, op, "attempt %s was never started", id)
	case stageStarting:
		res.State, res.Message = sdk.StatePending, "being started"
	case stageHeld:
		res.State, res.Message = sdk.StatePending, "being started"
		if v.started.V > 0 {
			res.State, res.Launches, res.Message = sdk.StateRunning, 1, fmt.Sprintf("process %d", v.started.Process.PID)
		}
	case stageLost, stageRebooted:
		res.State, res.Reason = sdk.StateUnknown, sdk.ReasonSupervisorLost
		res.Message = fmt.Sprintf("supervisor %d died before it recorded the job's end", v.begun.Supervisor.PID)
		if v.stage == stageRebooted {
			res.Message = "the machine was rebooted while the job was running or being started"
		}
		if v.started.V > 0 {
			res.Launches = 1
		}
	case stageEnded:
		ended(&res, v.end)
	}
	return res, nil
}

// ended fills in what the record of the end says.
func ended(res *sdk.JobStatusResult, e attempt.End) {
	res.StartedAt, res.EndedAt = e.Started, e.Ended
	res.Signal, res.OOMObserved, res.Raw = e.Signal, e.OOMKills > 0, raw(e)
	if !e.Started.IsZero() {
		res.Launches = 1
	}
	completed := e.ExitCode != nil && *e.ExitCode == 0 && e.Cause == ""
	if e.ExitCode != nil && (*e.ExitCode != 0 || completed) {
		res.ExitCode = e.ExitCode
	}
	res.State, res.Message = sdk.StateFailed, message(e)
	switch {
	case e.Cause == attempt.CauseCancel:
		res.State, res.Reason = sdk.StateCancelled, sdk.ReasonCancelled
	case e.Cause == attempt.CauseDeadline:
		res.Reason = sdk.ReasonTimedOut
	case e.Failure == attempt.FailureOther:
		res.Reason = sdk.ReasonFailedToStart
	case e.Failure != "":
		res.Reason = sdk.ReasonInvalidSpec
	case completed:
		res.State, res.Reason = sdk.StateSucceeded, sdk.ReasonCompleted
	case e.OOMKills > 0 && killedForMemory(e):
		res.Reason = sdk.ReasonOOMKilled
	case e.Signal != "":
		res.Reason = sdk.ReasonSignaled
	case e.Cause == attempt.CauseTerminated && *e.ExitCode == 0:
		res.Reason = sdk.ReasonInfrastructure
	default:
		res.Reason = sdk.ReasonNonzeroExit
	}
}

// killedForMemory tells a job that memory ended from one that went on and then
// failed: its own process was killed, or says that a child of it was.
func killedForMemory(e attempt.End) bool {
	return e.Signal == "SIGKILL" && e.EndedBy == "" || e.ExitCode != nil && *e.ExitCode == 128+9
}

func message(e attempt.End) string {
	how := ""
	switch {
	case e.StartError != "":
		return e.StartError
	case e.Started.IsZero():
		return "cancelled before it was started"
	case e.Signal != "":
		how = "ended by " + e.Signal
	case e.ExitCode != nil:
		how = fmt.Sprintf("exited with %d", *e.ExitCode)
	}
	if e.Cause != "" {
		by := e.EndedBy
		if by == "" {
			by = "no signal"
		}
		how += fmt.Sprintf(" after %s (%s)", by, e.Cause)
	}
	if len(e.Left) > 0 {
		how += fmt.Sprintf("; %d processes could not be killed", len(e.Left))
	}
	return how
}

// raw is the record in the supervisor's own words.
func raw(e attempt.End) map[string]string {
	out := map[string]string{}
	set := func(k, v string) {
		if v != "" && v != "0" {
			out[k] = v
		}
	}
	num := func(k string, n int64) { set(k, strconv.FormatInt(n, 10)) }
	set("exec_error", e.StartError)
	if e.Failure == attempt.FailureNotFound || e.Failure == attempt.FailureNotExecutable {
		set(sdk.RawExec, string(e.Failure))
	}
	if e.ExitCode != nil {
		out["exit_code"] = strconv.Itoa(*e.ExitCode)
	}
	set("signal", e.Signal)
	if e.Core {
		set("core", "true")
	}
	set("cause", string(e.Cause))
	set("why", e.Why)
	set("ended_by", e.EndedBy)
	num("rest_killed", int64(e.RestKilled))
	for i, id := range e.Left {
		if i > 0 {
			out["left_running"] += " "
		}
		out["left_running"] += strconv.Itoa(id.PID)
	}
	num("oom_kills", e.OOMKills)
	// What of the output was lost stands in the log, as gaps: there the bytes are
	// counted in that the disk didn't take a second time.
	num("output_capped", e.Capped)
	num("max_rss", e.MaxRSS)
	if e.UserTime > 0 || e.SystemTime > 0 {
		set("user_time", e.UserTime.String())
		set("system_time", e.SystemTime.String())
	}
	return out
}

// JobStatuses reads one record after the other.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	for i, h := range r.Handles {
		if err := ctx.Err(); err != nil {
			return sdk.JobStatusesResult{}, p.fail("read job statuses", context.Cause(ctx))
		}
		out.Items[i].Result, out.Items[i].Err = p.JobStatus(ctx, sdk.JobStatusRequest{Handle: h})
	}
	return out, nil
}
