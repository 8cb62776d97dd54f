package cloudrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cloud.google.com/go/run/apiv2/runpb"

	"github.com/windlass-run/windlass/internal/driver/sight"
	"github.com/windlass-run/windlass/sdk"
)

const opStatus = "read state"

// JobStatus implements sdk.JobRunner.
func (p *provider) JobStatus(ctx context.Context, r sdk.JobStatusRequest) (sdk.JobStatusResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if err := p.checkHandle(opStatus, r.Handle); err != nil {
		return sdk.JobStatusResult{}, err
	}
	return p.state(ctx, r.Handle, nil)
}

// listFrom is how many handles are worth a list: it shows the newest executions
// of the whole region, a page of them for one call.
const listFrom = 4

// JobStatuses implements sdk.JobBatcher. It looks for the executions in a list of
// the newest ones, as long as that can save calls, and asks for the rest one by
// one.
func (p *provider) JobStatuses(ctx context.Context, r sdk.JobStatusesRequest) (sdk.JobStatusesResult, error) {
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	if len(r.Handles) > batchMax {
		return sdk.JobStatusesResult{}, p.fail(sdk.InvalidArgument, opStatus, fmt.Errorf("%d handles, at most %d", len(r.Handles), batchMax))
	}
	out := sdk.JobStatusesResult{Items: make([]sdk.JobStatusItem, len(r.Handles))}
	wanted := map[string]bool{}
	for i, h := range r.Handles {
		if err := p.checkHandle(opStatus, h); err != nil {
			out.Items[i].Err = err
			continue
		}
		wanted[h.Metadata[keyExecution]] = true
	}
	listed, err := p.newest(ctx, wanted)
	if err != nil {
		return sdk.JobStatusesResult{}, err
	}
	var sound []int
	for i := range r.Handles {
		if out.Items[i].Err == nil {
			sound = append(sound, i)
		}
	}
	sight.Each(ctx, sound, func(ctx context.Context, i int) {
		h := r.Handles[i]
		out.Items[i].Result, out.Items[i].Err = p.state(ctx, h, listed[h.Metadata[keyExecution]])
	})
	if err := ctx.Err(); err != nil {
		return sdk.JobStatusesResult{}, p.fail(sdk.CodeOf(err), opStatus, err)
	}
	return out, nil
}

// newest returns those of the wanted executions that a few pages of the list of
// all have. In a parent's name - stands for all jobs.
// https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.jobs.executions/list
func (p *provider) newest(ctx context.Context, wanted map[string]bool) (map[string]*runpb.Execution, error) {
	got := map[string]*runpb.Execution{}
	req := &runpb.ListExecutionsRequest{Parent: p.jobName("-"), PageSize: batchMax}
	for page := 0; len(wanted)-len(got) >= listFrom && page < len(wanted)/listFrom; page++ {
		out, err := call(ctx, p, p.reads, opStatus, func(ctx context.Context) (*runpb.ListExecutionsResponse, error) {
			return p.executions.ListExecutions(ctx, req)
		})
		if err != nil {
			return nil, err
		}
		for _, e := range out.GetExecutions() {
			if id := last(e.GetName()); wanted[id] && jobOf(e.GetName())+"-"+executionToken == id {
				got[id] = e
			}
		}
		if req.PageToken = out.GetNextPageToken(); req.PageToken == "" {
			break
		}
	}
	return got, nil
}

// state judges a job by its execution, which may have been read already, by its
// task where it has ended, and by the job itself where there is no execution.
func (p *provider) state(ctx context.Context, h sdk.JobHandle, e *runpb.Execution) (sdk.JobStatusResult, error) {
	if e == nil {
		var err error
		e, err = p.getExecution(ctx, opStatus, h)
		if sdk.CodeOf(err) == sdk.NotFound {
			return p.withoutExecution(ctx, h)
		}
		if err != nil {
			return sdk.JobStatusResult{}, err
		}
	}
	p.show(h.ID)
	var task *runpb.Task
	if completed(e) {
		var err error
		if task, err = p.task(ctx, h); err != nil {
			return sdk.JobStatusResult{}, err
		}
	}
	res := result(e, task)
	p.note(h, res.State.Terminal(), res.Launches > 0)
	return res, nil
}

// task returns the execution's only task, nil for none.
func (p *provider) task(ctx context.Context, h sdk.JobHandle) (*runpb.Task, error) {
	out, err := call(ctx, p, p.reads, opStatus, func(ctx context.Context) (*runpb.ListTasksResponse, error) {
		return p.tasks.ListTasks(ctx, &runpb.ListTasksRequest{Parent: p.executionName(h), PageSize: 2})
	})
	if sdk.CodeOf(err) == sdk.NotFound {
		return nil, nil
	}
	if err != nil || len(out.GetTasks()) == 0 {
		return nil, err
	}
	return out.GetTasks()[0], nil
}

// withoutExecution judges a job whose execution isn't there: it was only just
// made, was refused behind the call, or is gone.
func (p *provider) withoutExecution(ctx context.Context, h sdk.JobHandle) (sdk.JobStatusResult, error) {
	j, err := p.getJob(ctx, opStatus, h.ID)
	switch {
	case sdk.CodeOf(err) == sdk.NotFound && p.young(h):
		return sdk.JobStatusResult{State: sdk.StatePending, Message: "accepted; Cloud Run doesn't show it yet"}, nil
	case sdk.CodeOf(err) == sdk.NotFound:
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, errors.New("Cloud Run knows no job "+h.ID))
	case err != nil:
		return sdk.JobStatusResult{}, err
	}
	p.show(h.ID)
	c := j.GetTerminalCondition()
	res := sdk.JobStatusResult{State: sdk.StatePending, CreatedAt: at(j.GetCreateTime()), Message: strings.TrimSpace("no execution yet; " + oneLine(c.GetMessage())),
		Raw: map[string]string{"job_condition": c.GetState().String()}}
	addRaw(res.Raw, "job_condition_message", c.GetMessage())
	addRaw(res.Raw, "job_condition_reason", reasonText(c))
	switch {
	case j.GetLatestCreatedExecution() != nil:
		// It was made between the two looks, isn't shown yet, or somebody deleted it.
		e, err := p.getExecution(ctx, opStatus, h)
		switch {
		case err == nil:
			return p.state(ctx, h, e)
		case sdk.CodeOf(err) != sdk.NotFound:
			return sdk.JobStatusResult{}, err
		case !p.recent(h):
			return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, errors.New("the execution of the job "+h.ID+" was deleted"))
		}
		res.Message = "the execution isn't shown yet"
	case j.GetDeleteTime() != nil:
		return sdk.JobStatusResult{}, p.fail(sdk.NotFound, opStatus, errors.New("the job "+h.ID+" is being deleted and has no execution"))
	case neverStarts(j):
		res.State, res.Reason, res.Message = sdk.StateFailed, conditionReason(c, sdk.ReasonFailedToStart), oneLine(c.GetMessage())
		p.note(h, true, false)
	}
	return res, nil
}

// result is the state that an execution tells, with its task where that is over.
func result(e *runpb.Execution, task *runpb.Task) sdk.JobStatusResult {
	res := sdk.JobStatusResult{CreatedAt: at(e.GetCreateTime()), StartedAt: at(e.GetStartTime()), Raw: raw(e, task)}
	if !res.StartedAt.IsZero() || e.GetRunningCount() > 0 || task.GetStartTime() != nil {
		res.Launches = 1 + int(e.GetRetriedCount())
	}
	if !completed(e) {
		res.State, res.Message = sdk.StatePending, progress(e)
		if res.Launches > 0 {
			res.State = sdk.StateRunning
		}
		return res
	}
	res.EndedAt = at(e.GetCompletionTime())
	if res.EndedAt.Before(res.StartedAt) {
		res.EndedAt = res.StartedAt
	}
	v := judge(e, task)
	res.State, res.Reason, res.ExitCode, res.Signal, res.OOMObserved, res.Message = v.state, v.reason, v.code, v.signal, v.reason == sdk.ReasonOOMKilled, v.message
	if v.exec != "" {
		res.Raw[sdk.RawExec] = v.exec
	}
	return res
}

// progress is what an execution waits for.
func progress(e *runpb.Execution) string {
	for _, kind := range []string{condStarted, condResources, condContainer} {
		if c := conditionOf(e.GetConditions(), kind); c.GetState() == runpb.Condition_CONDITION_RECONCILING && c.GetMessage() != "" {
			return oneLine(c.GetMessage())
		}
	}
	return oneLine(conditionOf(e.GetConditions(), condCompleted).GetMessage())
}

// raw keeps what Cloud Run says, in its own words.
func raw(e *runpb.Execution, task *runpb.Task) map[string]string {
	m := map[string]string{"task_count": itoa(int64(e.GetTaskCount())), "succeeded_count": itoa(int64(e.GetSucceededCount())), "failed_count": itoa(int64(e.GetFailedCount())),
		"cancelled_count": itoa(int64(e.GetCancelledCount())), "running_count": itoa(int64(e.GetRunningCount())), "retried_count": itoa(int64(e.GetRetriedCount()))}
	for _, c := range e.GetConditions() {
		key := "condition." + c.GetType()
		m[key] = c.GetState().String()
		addRaw(m, key+".message", c.GetMessage())
		addRaw(m, key+".reason", reasonText(c))
	}
	if a := task.GetLastAttemptResult(); a != nil {
		m["attempt.status"] = itoa(int64(a.GetStatus().GetCode()))
		addRaw(m, "attempt.message", a.GetStatus().GetMessage())
		m["attempt.exit_code"] = itoa(int64(a.GetExitCode()))
		m["attempt.term_signal"] = itoa(int64(a.GetTermSignal()))
	}
	addRaw(m, "log_uri", e.GetLogUri())
	return m
}

func addRaw(m map[string]string, key, value string) {
	if value != "" {
		m[key] = value
	}
}

func conditionOf(list []*runpb.Condition, kind string) *runpb.Condition {
	if i := slices.IndexFunc(list, func(c *runpb.Condition) bool { return c.GetType() == kind }); i >= 0 {
		return list[i]
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
